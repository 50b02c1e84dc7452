"""Row-sparse gradients: zero but for the rows of a table that were looked up."""

from __future__ import annotations

import numpy as np

from proa import _core
from proa._core import Tensor, ops


def parts(x: Tensor) -> tuple[Tensor, Tensor] | None:
    """(rows, values) of a row-sparse tensor, where a row may occur more than once; None
    of any other tensor.
    """
    found: tuple[Tensor, Tensor] | None = _core.row_sparse_parts(x)
    return found


def merged(x: Tensor) -> Tensor:
    """The same row-sparse tensor with every row once, in order; any other as it is. In
    a program, where the number of rows is unknown, it is dense.
    """
    found = parts(x)
    if found is None:
        return x
    rows, values = found
    if rows._is_symbolic:
        return ops.assign(x)
    once, place = np.unique(rows.numpy(), return_inverse=True)
    if once.size == rows.size and (np.diff(rows.numpy()) > 0).all():
        return x
    shape = [once.size, *values.shape[1:]]
    like = ops.full(shape=shape, value=0, dtype=values.dtype)
    sums = ops.embedding_grad(_core.from_numpy(place.reshape(-1)), values, like)
    return with_values(x, sums, _core.from_numpy(once))


def values_of(x: Tensor) -> Tensor:
    """All elements that may differ from 0: the values of a row-sparse tensor."""
    found = parts(x)
    return x if found is None else found[1]


def with_values(x: Tensor, values: Tensor, rows: Tensor | None = None) -> Tensor:
    """``x`` with other values; its rows stay unless others are given."""
    found = parts(x)
    if found is None:
        return values
    tensor: Tensor = _core.row_sparse(found[0] if rows is None else rows, values, x)
    return tensor
