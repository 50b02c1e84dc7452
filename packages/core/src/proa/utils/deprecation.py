"""Marking functions that are to go."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[_F], _F]:
    """Decorate a function that callers should leave.

    Args:
        update_to: What to use in its place.
        since: The version that it is discouraged from.
        reason: Why.
        level: 0 and 1 warn at a call, 2 makes a call a RuntimeError.
    """

    def decorate(function: _F) -> _F:
        text = f"{function.__module__}.{function.__qualname__} is deprecated"
        text += f" since {since}" if since else ""
        text += f"; use {update_to} instead" if update_to else ""
        text += f" ({reason})" if reason else ""

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            if level == 2:
                raise RuntimeError(f"[{function.__qualname__}] {text}")
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args, **keywords)

        call.__doc__ = f"Deprecated: {text}.\n\n{function.__doc__ or ''}"
        return call  # type: ignore[return-value]  # of the same signature

    return decorate
