"""Checks of arguments: errors name the function, the expectation and the value."""

from __future__ import annotations

import operator
import os
from typing import Any

from proa.errors import InvalidArgumentError, InvalidTypeError


def integer(where: str, name: str, value: Any, minimum: int | None = None) -> int:
    """`value` as an int, of at least `minimum` if there is one.

    Raises:
        InvalidTypeError: If it is no integer.
        InvalidArgumentError: If it is less.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"[{where}] {name} must be an int, got {value!r}"
        ) from None
    if minimum is not None and number < minimum:
        raise InvalidArgumentError(
            f"[{where}] {name} must be >= {minimum}, got {number}"
        )
    return number


def path(where: str, name: str, value: Any) -> str:
    """`value` as the text of a path.

    Raises:
        InvalidTypeError: If it is none.
    """
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InvalidTypeError(f"[{where}] {name} must be a path, got {value!r}")
    return text


def has_methods(where: str, name: str, value: Any, *methods: str) -> None:
    """Raise InvalidTypeError unless `value` has these methods, or is callable if none
    are named.
    """
    if not methods and not callable(value):
        raise InvalidTypeError(f"[{where}] {name} must be a function, got {value!r}")
    missing = [m for m in methods if not callable(getattr(value, m, None))]
    if missing:
        raise InvalidTypeError(
            f"[{where}] {name} must have the methods {', '.join(methods)}, got "
            f"{value!r} without {', '.join(missing)}"
        )
