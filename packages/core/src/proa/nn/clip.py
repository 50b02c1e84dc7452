"""Gradient clipping; an optimizer takes one as ``grad_clip``."""

from __future__ import annotations

from typing import Any

from proa import _core
from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.tensor.row_sparse import merged, values_of, with_values

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]

#: Parameters with their gradients.
Pairs = list[tuple[Any, Any]]


class ClipGrad:
    """Changes gradients before a step; parameters with need_clip=False are left out."""

    def __call__(self, params_grads: Pairs) -> Pairs:
        """The pairs with clipped gradients; the parameters' own ``grad`` is not
        changed.
        """
        with NoTape():
            chosen = [
                i
                for i, (p, g) in enumerate(params_grads)
                if g is not None and getattr(p, "need_clip", True)
            ]
            # Row-sparse gradients give the rows that they have, each of them once.
            grads = [merged(params_grads[i][1]) for i in chosen]
            clipped = self._clip([values_of(g) for g in grads])
            result = list(params_grads)
            for i, g, values in zip(chosen, grads, clipped, strict=True):
                result[i] = (params_grads[i][0], with_values(g, values))
        return result

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        raise NotImplementedError


class ClipGradByValue(ClipGrad):
    """Each element limited to [min, max]; min is -max if None."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        return [ops.clip(g, min=self.min, max=self.max) for g in grads]


class ClipGradByNorm(ClipGrad):
    """Each gradient scaled so that its 2-norm is at most clip_norm."""

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = float(clip_norm)

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        return [ops.mul(g, _factor([g], self.clip_norm)) for g in grads]


class ClipGradByGlobalNorm(ClipGrad):
    """All gradients scaled together so that their joint 2-norm is at most clip_norm."""

    def __init__(
        self,
        clip_norm: float,
        group_name: str = "default_group",
        auto_skip_clip: bool = False,
    ) -> None:
        self.clip_norm, self.group_name = float(clip_norm), group_name
        self.auto_skip_clip = auto_skip_clip

    def _clip(self, grads: list[Tensor]) -> list[Tensor]:
        if not grads:
            return []
        factor = _factor(grads, self.clip_norm)
        if all(g.dtype is factor.dtype for g in grads):
            return _core.each(ops.mul, grads, factor)
        return [ops.mul(g, factor.astype(g.dtype)) for g in grads]


def _factor(grads: list[Tensor], limit: float) -> Tensor:
    """limit / max(norm, limit): 1 if the norm is small enough, and never NaN at 0."""
    norm = ops.sqrt(ops.squared_norm(*grads))
    return ops.div(limit, ops.maximum(norm, limit))
