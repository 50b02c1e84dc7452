"""Parameters that are trained as a length and a direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn.attr import ParamAttr

if TYPE_CHECKING:
    from proa.nn.schemes import Initializer
    from proa.optimizer.regularizer import Regularizer


class WeightNormParamAttr(ParamAttr):
    """Lets a function or layer of static mode have g * v / |v| as its parameter
    (Salimans & Kingma, 2016).

    v is filled by the initializer, g with the lengths of v, so that the first value is
    the initializer's.

    Args:
        dim: Axis along which each slice has a length of its own; None for one length.
        name: The parameter's; v and g are called ``<name>_v`` and ``<name>_g``.
        initializer: What fills v.
        learning_rate: Factor on the optimizer's learning rate.
        regularizer: A regularizer of its own.
        trainable: Whether v and g are trained.
        do_model_average: Kept for callers.
        need_clip: Whether gradient clipping applies.
    """

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        super().__init__(
            name, initializer, learning_rate, regularizer, trainable, do_model_average,
            need_clip,
        )  # fmt: skip
        self.dim = dim

    def lengths(self, v: Tensor) -> Tensor:
        """The lengths of the slices of v, with size 1 along the axes of a slice.

        Raises:
            InvalidArgumentError: If v has no axis `dim`.
        """
        if self.dim is None:
            return ops.sqrt(ops.sum(ops.square(v), axis=[], keepdim=True))
        if not -v.ndim <= self.dim < v.ndim:
            raise InvalidArgumentError(
                f"[static.WeightNormParamAttr] dim must be an axis of {v.ndim}, got "
                f"{self.dim}"
            )
        others = [a for a in range(v.ndim) if a != self.dim % v.ndim]
        return ops.sqrt(ops.sum(ops.square(v), axis=others, keepdim=True))
