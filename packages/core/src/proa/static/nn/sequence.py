"""Sequences reduced, normalised and convolved.

They are `LoDTensor`s, computed at once, or Variables of a program whose rows make
sequences: data with ``lod_level``, and what is computed row by row of such. Only the
last level of lengths, that of rows, is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.naming import unique_name
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn import sequence_reductions as reductions
from proa.nn.sequences import RowSequences
from proa.static.nn.sequence_arguments import (
    sequence_parameter,
    sequences_of,
    with_sequences,
)

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "sequence_conv", "sequence_first_step", "sequence_last_step", "sequence_pool",
    "sequence_softmax",
]  # fmt: skip


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
    own = sequences_of("sequence_pool", input)
    out = reductions.pool(input, own, pool_type.lower(), pad_value)
    outer = own.levels[:-1]
    return with_sequences(out, RowSequences(outer, None, out)) if outer else out


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
    own = sequences_of("sequence_softmax", input)
    return with_sequences(reductions.softmax(input, own), own)


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
    own = sequences_of("sequence_conv", input)
    if filter_stride != 1 or not padding:
        raise InvalidArgumentError(
            "[sequence_conv] filter_stride must be 1 and padding True, "
            f"got {filter_stride} and {padding}"
        )
    first = -(filter_size // 2) if padding_start is None else padding_start
    flat = reductions.windows(input, own, filter_size, first)
    kind = input.dtype
    stem = name or unique_name("sequence_conv")
    shape = [filter_size * int(input.shape[1]), num_filters]
    weight = sequence_parameter(stem, shape, kind, param_attr)
    bias = sequence_parameter(stem, [num_filters], kind, bias_attr, is_bias=True)
    out = ops.linear(flat, weight, bias)
    out = out if act is None else getattr(F, act)(out)
    return with_sequences(ops.cast(out, dtype=as_dtype(kind)), own)
