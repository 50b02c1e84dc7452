"""`paddle.fluid.clip`: what has no equal in 2.x."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.base.public import publish as _publish
from proa.static import Program, default_main_program

if TYPE_CHECKING:
    from proa.nn.clip import ClipGrad

__all__ = ["set_gradient_clip"]


def set_gradient_clip(
    clip: ClipGrad,
    param_list: Iterable[Tensor | str] | None = None,
    program: Program | None = None,
) -> None:
    """Let optimizers that have no grad_clip of their own clip these gradients.

    Args:
        clip: How they are clipped.
        param_list: The parameters, or their names; None for all that the program has.
        program: Their program; the default one if None.
    """
    owner = default_main_program() if program is None else program
    given = owner.all_parameters() if param_list is None else param_list
    for each in given:
        name = each if isinstance(each, str) else each.name
        owner.gradient_clips[name] = clip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
