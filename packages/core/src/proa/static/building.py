"""What functions of static graphs share: their names and activations."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.base.naming import unique_name
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.static.state import require_static


def layer_name(where: str, stem: str, name: str | None = None) -> str:
    """What names of parameters begin with: a given name, or ``stem_N``.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    require_static(f"nn.{where}")
    return name or unique_name(stem)


def check_activation(where: str, act: str | None) -> None:
    """An activation is None or the name of one.

    Raises:
        InvalidArgumentError: If there is none of that name.
    """
    if act is not None and not callable(getattr(F, str(act), None)):
        raise InvalidArgumentError(
            f"[static.nn.{where}] expected the name of an activation, got {act!r}"
        )


def activated(x: Tensor, act: str | None) -> Tensor:
    """x after an activation by its name; x itself for None."""
    return x if act is None else getattr(F, act)(x)


def known(where: str, what: str, size: Any) -> int:
    """A size that parameters have, which must be known when the program is built.

    Raises:
        InvalidArgumentError: If it is symbolic.
    """
    found = int(size)
    if found < 0:
        raise InvalidArgumentError(
            f"[static.nn.{where}] expected {what} of known size, got -1"
        )
    return found


def as_variable(where: str, x: Tensor) -> Tensor:
    """A Variable that stands for a tensor with a value, so that runs can fetch it."""
    return x if x._is_symbolic else require_static(where).constant(x)
