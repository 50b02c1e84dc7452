"""Concatenate, slice, repeat, pad and reverse sequences.

They are `LoDTensor`s, computed at once, or Variables whose rows make sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import sequence_layouts as layouts
from proa.nn import sequence_reductions as reductions
from proa.static.nn.sequence_arguments import (
    has_sequences,
    rows_counted_by,
    sequences_of,
    with_sequences,
)
from proa.tensor.arguments import check_rank

if TYPE_CHECKING:
    from proa.base.typing import TensorLike

__all__ = [
    "sequence_concat", "sequence_enumerate", "sequence_expand", "sequence_expand_as",
    "sequence_pad", "sequence_reshape", "sequence_reverse", "sequence_scatter",
    "sequence_slice", "sequence_unpad",
]  # fmt: skip


def sequence_concat(input: Sequence[Tensor], name: str | None = None) -> Tensor:
    """Sequence i of every input one after another, for each i."""
    own = [sequences_of("sequence_concat", x) for x in input]
    return with_sequences(*layouts.concatenated(input, own))


def sequence_slice(
    input: Tensor, offset: Tensor, length: Tensor, name: str | None = None
) -> Tensor:
    """``length[i]`` rows of sequence i from ``offset[i]`` on."""
    own = sequences_of("sequence_slice", input)
    return with_sequences(*layouts.sliced(input, own, offset, length))


def sequence_expand(
    x: Tensor, y: Tensor, ref_level: int = -1, name: str | None = None
) -> Tensor:
    """Sequence i of x as often as level ``ref_level`` of y says.

    A tensor without lengths counts as sequences of one row.
    """
    wanted = sequences_of("sequence_expand", y)
    own = sequences_of("sequence_expand", x) if has_sequences(x) else None
    return with_sequences(*layouts.expanded(x, own, wanted, ref_level))


def sequence_expand_as(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Row i of x as often as sequence i of y has rows."""
    own = sequences_of("sequence_expand_as", y)
    return with_sequences(*layouts.expanded_as(x, own))


def sequence_pad(
    x: Tensor, pad_value: TensorLike, maxlen: int | None = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Sequences side by side (sequences, maxlen, ..), and their lengths (int64).

    Args:
        x: Rows of sequences.
        pad_value: What fills the places after a sequence's end: a number, or a tensor
            of one number or of a row's shape.
        maxlen: Places for each sequence; None is the longest one.
    """
    return layouts.padded(x, sequences_of("sequence_pad", x), pad_value, maxlen)


def sequence_unpad(x: Tensor, length: Tensor, name: str | None = None) -> Tensor:
    """The reverse: the first length[i] rows of x[i], one sequence after another."""
    check_rank("sequence_unpad", "x", x, 2)
    return with_sequences(*layouts.unpadded(x, length, rows_counted_by(length)))


def sequence_reshape(input: Tensor, new_dim: int) -> Tensor:
    """Rows of length new_dim, each sequence keeping its elements."""
    own = sequences_of("sequence_reshape", input)
    return with_sequences(*layouts.reshaped(input, own, new_dim))


def sequence_scatter(
    input: Tensor, index: Tensor, updates: Tensor, name: str | None = None
) -> Tensor:
    """input (n, d) with sequence i of updates added to row i at the places in sequence
    i of index.
    """
    own = sequences_of("sequence_scatter", index)
    return layouts.scattered(input, index, own, updates)


def sequence_enumerate(
    input: Tensor, win_size: int, pad_value: int = 0, name: str | None = None
) -> Tensor:
    """Each id with the win_size - 1 after it in its sequence, (n, win_size)."""
    own = sequences_of("sequence_enumerate", input)
    result = reductions.enumerated(input, own, win_size, pad_value)
    return with_sequences(result, own)


def sequence_reverse(x: Tensor, name: str | None = None) -> Tensor:
    """Each sequence from its end to its beginning."""
    own = sequences_of("sequence_reverse", x)
    return with_sequences(layouts.reversed_rows(x, own), own)
