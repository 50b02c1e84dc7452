"""Rows of a table looked up and summed for each sequence, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proa import _core
from proa._core import Tensor, is_grad_enabled, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from proa.nn.create import create_parameter
from proa.tensor.arguments import check_rank
from proa.tensor.lod import LoDTensor

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = ["embedding_seq_pool", "fused_embedding_seq_pool"]


def _padded(input: Any, rows: int, padding_idx: int | None) -> Any:
    """Row numbers of each sequence (sequences, longest); -1 means none."""
    if not isinstance(input, LoDTensor) or not input._lengths:
        raise InvalidArgumentError(
            "[embedding_seq_pool] input must be a LoDTensor with lengths, "
            f"got {type(input).__name__}"
        )
    if input.ndim > 2 or (input.ndim == 2 and input.shape[1] != 1):
        raise ShapeError(
            "embedding_seq_pool", "input must be (n,) or (n, 1)", input.shape
        )
    ids = input.numpy().reshape(-1)
    if ids.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"[embedding_seq_pool] input must be integers, got {input.dtype.name}"
        )
    if ids.size and not 0 <= ids.min() <= ids.max() < rows:
        raise OutOfRangeError(
            f"[embedding_seq_pool] input must be in [0, {rows}), got "
            f"{ids.min()} to {ids.max()}"
        )
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise InvalidArgumentError(
                f"[embedding_seq_pool] padding_idx must be in [{-rows}, {rows}), "
                f"got {padding_idx}"
            )
        ids = np.where(ids == padding_idx % rows, -1, ids)
    lengths = np.array(input._lengths[-1], np.int64)
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    index = np.full(inside.shape, -1, np.int64)
    index[inside] = ids
    return index


def _sparse(index: Any, weight: Tensor, sums: Any) -> Tensor:
    """The sums on the tape with a row-sparse gradient."""
    with NoTape():
        out: Tensor = sums(weight)
    owners, places = np.nonzero(index >= 0)

    def backward(grad: Tensor) -> Tensor:
        rows = _core.from_numpy(index[owners, places], False)
        values = ops.gather(grad, _core.from_numpy(owners.astype(np.int64), False))
        gradient: Tensor = _core.row_sparse(rows, values, weight)
        return gradient

    _core.record_custom("embedding_seq_pool", [weight], [out], backward)
    return out


def embedding_seq_pool(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    combiner: str = "sum",
    is_sparse: bool = False,
) -> Tensor:
    """y[s] = the sum of weight[i] over the numbers i of sequence s.

    The rows are added as they are read: they are never all materialized.

    Args:
        input: A LoDTensor of row numbers, (n,) or (n, 1), int32 or int64.
        weight: The table (rows, width).
        padding_idx: A row that adds nothing and takes no gradient; negative ones count
            from the end.
        combiner: Must be "sum".
        is_sparse: Whether the table's gradient holds the rows of input alone.

    Returns:
        (sequences, width); zeros for a sequence of no numbers.

    Raises:
        InvalidArgumentError: If input has no lengths or combiner is another.
        OutOfRangeError: If a number names no row.
    """
    if combiner != "sum":
        raise InvalidArgumentError(
            f"[embedding_seq_pool] combiner must be 'sum', got {combiner!r}"
        )
    check_rank("embedding_seq_pool", "weight", weight, 2, 2)
    index = _padded(input, weight.shape[0], padding_idx)
    at = _core.from_numpy(index, False)
    ones = ops.full(shape=list(index.shape), value=1, dtype=weight.dtype)

    def sums(table: Tensor) -> Tensor:
        return ops.blend_rows(table, at, ones)

    if is_sparse and not weight.stop_gradient and is_grad_enabled():
        return _sparse(index, weight, sums)
    return sums(weight)


def fused_embedding_seq_pool(
    input: Tensor,
    size: Any,
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """`embedding_seq_pool` with a table that is made here.

    Args:
        input: A LoDTensor of row numbers, (n,) or (n, 1).
        size: (rows, width) of the table.
        is_sparse: Whether the table's gradient holds the rows of input alone.
        padding_idx: A row that adds nothing and takes no gradient.
        combiner: Must be "sum".
        param_attr: How the table is made.
        dtype: The table's.
    """
    weight = create_parameter(list(size), dtype, attr=param_attr)
    return embedding_seq_pool(input, weight, padding_idx, combiner, is_sparse)
