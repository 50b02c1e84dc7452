"""Sequences of unequal lengths."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype

__all__ = ["sequence_mask"]


def sequence_mask(
    x: Tensor, maxlen: int | None = None, dtype: Any = "int64", name: Any = None
) -> Tensor:
    """1 in the first x[i] places of row i, else 0."""
    length = int(ops.max(x).item()) if maxlen is None else int(maxlen)
    places = ops.arange(start=0, step=1, count=length, dtype=x.dtype)
    inside = ops.less_than(places, ops.unsqueeze(x, axis=[-1]))
    return ops.cast(inside, dtype=as_dtype(dtype))
