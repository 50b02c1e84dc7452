"""Sequences reduced, normalised and convolved. They are `LoDTensor`s, computed at once.

Only the last level of lengths, that of rows, is looked at.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F
from proa.nn.create import create_parameter
from proa.tensor.creation import to_tensor
from proa.tensor.lod import LoDTensor, with_lengths

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "sequence_conv", "sequence_first_step", "sequence_last_step", "sequence_pool",
    "sequence_softmax",
]  # fmt: skip


def lengths_of(where: str, x: Any) -> list[int]:
    """Rows of each sequence."""
    if not isinstance(x, LoDTensor) or not x._lengths:
        raise InvalidArgumentError(
            f"[{where}] input must be a LoDTensor with lengths, got {type(x).__name__}"
        )
    return x._lengths[-1]


def index_of(values: Any) -> Tensor:
    """Row numbers as a tensor."""
    return to_tensor(np.asarray(values, np.int64))


def relaid(value: Tensor, x: LoDTensor, lengths: Any) -> LoDTensor:
    """Rows with x's outer levels and new lengths of rows."""
    return with_lengths(value, [*x._lengths[:-1], [int(n) for n in lengths]])


def _owners(lengths: list[int]) -> Tensor:
    """Which sequence each row belongs to."""
    return index_of(np.repeat(np.arange(len(lengths)), lengths))


def _summed(rows: Tensor, lengths: list[int]) -> Tensor:
    """The sum of each sequence's rows."""
    shape = [len(lengths), *rows.shape[1:]]
    like = ops.full(shape=shape, value=0, dtype=rows.dtype)
    # Adding rows where they were gathered from is the gradient of gathering.
    return ops.gather_grad(rows, _owners(lengths), like, axis=0)


def _greatest(rows: Tensor, lengths: list[int]) -> Tensor:
    """The greatest of each sequence's rows, -inf of none."""
    width = max(lengths, default=0)
    starts = np.array([0, *accumulate(lengths)][:-1])
    place = np.arange(width)
    inside = place < np.array(lengths)[:, None]
    index = np.where(inside, starts[:, None] + place, 0)
    wide = ops.gather(rows, index_of(index))  # (sequences, width, ..)
    mask = to_tensor(inside.reshape(*inside.shape, *[1] * (rows.ndim - 1)))
    never = ops.full(shape=[], value=float("-inf"), dtype=rows.dtype)
    return ops.max(ops.where(mask, wide, never), axis=[1])


def _broadcast_rows(rows: Tensor, numbers: Any) -> Tensor:
    """One number for each row, in a shape that broadcasts to them."""
    column = np.asarray(numbers, np.float64).reshape(-1, *[1] * (rows.ndim - 1))
    return ops.cast(to_tensor(column), dtype=rows.dtype)


def sequence_pool(
    input: Tensor, pool_type: str, is_test: bool = False, pad_value: float = 0.0
) -> Tensor:
    """One row for each sequence.

    Args:
        input: Rows (n, ..) of sequences.
        pool_type: average, sum, sqrt (the sum divided by the root of the length), max,
            first or last.
        is_test: Kept for callers; has no meaning here.
        pad_value: What a sequence of no rows gives.
    """
    lengths = lengths_of("sequence_pool", input)
    kind = pool_type.lower()
    size = np.maximum(lengths, 1)
    ends = np.array(list(accumulate(lengths)), np.int64)
    if kind in ("sum", "average", "sqrt"):
        out = _summed(input, lengths)
        if kind != "sum":
            by = size if kind == "average" else np.sqrt(size)
            out = ops.div(out, _broadcast_rows(out, by))
    elif kind == "max":
        out = _greatest(input, lengths)
    elif kind in ("first", "last"):
        row = ends - np.array(lengths) if kind == "first" else ends - 1
        out = ops.gather(input, index_of(np.clip(row, 0, max(input.shape[0] - 1, 0))))
    else:
        raise InvalidArgumentError(
            "[sequence_pool] pool_type must be average, sum, sqrt, max, first or last, "
            f"got {pool_type!r}"
        )
    if 0 in lengths:
        there = _broadcast_rows(out, np.array(lengths) > 0)
        pad = ops.full(shape=[], value=float(pad_value), dtype=out.dtype)
        out = ops.where(ops.greater_than(there, 0.0), out, pad)
    assert isinstance(input, LoDTensor)
    outer = input._lengths[:-1]
    return with_lengths(out, outer) if outer else out


def sequence_first_step(input: Tensor) -> Tensor:
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Tensor) -> Tensor:
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(
    input: Tensor, use_cudnn: bool = False, name: str | None = None
) -> Tensor:
    """Softmax over the rows of each sequence; rows are (n,) or (n, 1)."""
    lengths = lengths_of("sequence_softmax", input)
    if input.ndim > 2 or (input.ndim == 2 and input.shape[1] != 1):
        raise ShapeError("sequence_softmax", "rows must be (n,) or (n, 1)", input.shape)
    owners = _owners(lengths)
    if input.shape[0] == 0:
        return input
    peak = ops.gather(_greatest(input, lengths).detach(), owners)
    powers = ops.exp(ops.sub(input, peak))
    total = ops.gather(_summed(powers, lengths), owners)
    assert isinstance(input, LoDTensor)
    return relaid(ops.div(powers, total), input, lengths)


def _windows(lengths: list[int], size: int, first: int) -> Any:
    """Rows that each row's window covers (n, size); -1 beyond its sequence."""
    rows = []
    start = 0
    for n in lengths:
        near = np.arange(n)[:, None] + first + np.arange(size)
        rows.append(np.where((near >= 0) & (near < n), near + start, -1))
        start += n
    return np.concatenate(rows) if rows else np.zeros((0, size), np.int64)


def sequence_conv(
    input: Tensor,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: ParamAttrLike | None = None,
    param_attr: ParamAttrLike | None = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """A window of rows times a weight that is made here, for each row.

    Args:
        input: Rows (n, d) of sequences; zeros are taken beyond a sequence's ends.
        num_filters: Length of the rows that come out.
        filter_size: Rows in a window.
        filter_stride: Must be 1.
        padding: Must be True.
        padding_start: Where the window begins, counted from the row; None centres it.
        bias_attr: How the bias (num_filters,) is made; False for none.
        param_attr: How the weight (filter_size * d, num_filters) is made.
        act: Name of the activation that follows.
    """
    lengths = lengths_of("sequence_conv", input)
    if filter_stride != 1 or not padding:
        raise InvalidArgumentError(
            "[sequence_conv] filter_stride must be 1 and padding True, "
            f"got {filter_stride} and {padding}"
        )
    first = -(filter_size // 2) if padding_start is None else padding_start
    index = _windows(lengths, filter_size, first)
    width = input.shape[1]
    wide = ops.gather(input, index_of(np.maximum(index, 0)))  # (n, size, d)
    inside = ops.cast(to_tensor((index >= 0)[..., None]), dtype=input.dtype)
    flat = ops.flatten(ops.mul(wide, inside), start_axis=1, stop_axis=2)
    kind = input.dtype
    weight = create_parameter([filter_size * width, num_filters], kind, attr=param_attr)
    bias = create_parameter([num_filters], kind, attr=bias_attr, is_bias=True)
    out = ops.linear(flat, weight, bias)
    out = out if act is None else getattr(F, act)(out)
    assert isinstance(input, LoDTensor)
    return relaid(ops.cast(out, dtype=as_dtype(kind)), input, lengths)
