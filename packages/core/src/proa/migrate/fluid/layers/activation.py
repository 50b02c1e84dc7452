"""Activations that calls of 1.x give by name."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F


def activated(x: Tensor, act: str | None) -> Tensor:
    """The activation of that name applied to x.

    Raises:
        InvalidArgumentError: If there is none of that name.
    """
    if act is None:
        return x
    function: Any = getattr(F, act, None)
    if function is None:
        raise InvalidArgumentError(
            f"[activation] act must be the name of an activation, got {act!r}"
        )
    tensor: Tensor = function(x)
    return tensor
