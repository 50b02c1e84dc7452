"""Embedding, one-hot encoding and label smoothing."""

from __future__ import annotations

import numpy as np

from proa import _core
from proa._core import Tensor, is_grad_enabled, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_int, check_rank

__all__ = ["embedding", "label_smooth", "one_hot"]


def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Rows of weight at the integers x; zeros where x is padding_idx.

    Args:
        x: Row numbers of any shape, int32 or int64.
        weight: The table (rows, width).
        padding_idx: The row that gives zeros and takes no gradient; negative ones count
            from the end.
        sparse: Whether the table's gradient holds the rows of x alone.
        name: Has no meaning here.
    """
    check_rank("embedding", "weight", weight, 2, 2)
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise InvalidArgumentError(
            f"[embedding] padding_idx must be in [{-rows}, {rows}), got {padding_idx}"
        )
    pad = -1 if padding_idx is None else padding_idx % rows
    symbolic = x._is_symbolic or weight._is_symbolic
    # Static programs have dense gradients; recorded functions have what eager code has.
    if symbolic is not _core.is_recording():
        sparse = False
    if sparse and not weight.stop_gradient and is_grad_enabled():
        return _sparse_lookup(x, weight, pad)
    return ops.embedding(x, weight, padding_idx=pad)


def _sparse_lookup(x: Tensor, weight: Tensor, pad: int) -> Tensor:
    """The look-up on the tape with a row-sparse gradient."""
    with NoTape():
        out = ops.embedding(x, weight, padding_idx=pad)

    def backward(grad: Tensor) -> Tensor:
        if is_grad_enabled():  # to be differentiated again
            return ops.embedding_grad(x, grad, weight, padding_idx=pad)
        rows = ops.reshape(ops.cast(x, dtype="int64"), shape=[-1])
        values = ops.reshape(grad, shape=[rows.shape[0], *weight.shape[1:]])
        if pad >= 0 and rows._is_symbolic:
            rows, values = _without(rows, values, pad)
        elif pad >= 0:
            unpadded = np.flatnonzero(rows.numpy() != pad)
            index = _core.from_numpy(unpadded)
            rows, values = ops.gather(rows, index), ops.gather(values, index)
        gradient: Tensor = _core.row_sparse(rows, values, weight)
        return gradient

    _core.record_custom("embedding", [weight], [out], backward)
    return out


def _without(rows: Tensor, values: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """As many rows, without the row `pad`, if there are others: zeros are added to one
    of those instead, which leaves it as it is.
    """
    is_unpadded = ops.not_equal(rows, pad)
    other = ops.max(ops.where(is_unpadded, rows, -1), axis=[0], keepdim=True)
    other = ops.where(ops.less_than(other, 0), pad, other)
    along = ops.reshape(is_unpadded, shape=[-1] + [1] * (values.ndim - 1))
    return ops.where(is_unpadded, rows, other), ops.where(along, values, 0.0)


def one_hot(x: Tensor, num_classes: int | Tensor, name: str | None = None) -> Tensor:
    """A last axis with 1 at the index and 0 elsewhere."""
    return ops.one_hot(x, depth=as_int("one_hot", num_classes))


def label_smooth(
    label: Tensor,
    prior_dist: Tensor | None = None,
    epsilon: float = 0.1,
    name: str | None = None,
) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior, by default even over the classes."""
    if prior_dist is None:
        check_rank("label_smooth", "label", label, 1)
        if label.shape[-1] == 0:
            raise ShapeError("label_smooth", "expected a class", label.shape)
        return ops.scale(label, scale=1.0 - epsilon, bias=epsilon / label.shape[-1])
    scaled = ops.scale(label, scale=1.0 - epsilon)
    return ops.add(scaled, ops.scale(prior_dist, scale=epsilon))
