"""Concatenate, slice, repeat, pad and reverse sequences. They are `LoDTensor`s."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.static.nn.sequence import index_of, lengths_of, relaid
from proa.tensor.arguments import check_rank
from proa.tensor.creation import to_tensor
from proa.tensor.lod import LoDTensor, with_lengths

if TYPE_CHECKING:
    from proa.base.typing import TensorLike

__all__ = [
    "sequence_concat", "sequence_enumerate", "sequence_expand", "sequence_expand_as",
    "sequence_pad", "sequence_reshape", "sequence_reverse", "sequence_scatter",
    "sequence_slice", "sequence_unpad",
]  # fmt: skip


def _spans(lengths: Sequence[int], shift: int = 0) -> list[Any]:
    """The row numbers of each sequence."""
    starts = [0, *accumulate(lengths)]
    return [np.arange(n) + s + shift for s, n in zip(starts, lengths, strict=False)]


def _taken(x: Tensor, rows: list[Any]) -> Tensor:
    """Rows of x by number, one array after another."""
    index = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    return ops.gather(x, index_of(index))


def sequence_concat(input: Sequence[Tensor], name: str | None = None) -> LoDTensor:
    """Sequence i of every input one after another, for each i."""
    parts = [lengths_of("sequence_concat", x) for x in input]
    if len({len(own) for own in parts}) != 1:
        raise InvalidArgumentError(
            "[sequence_concat] inputs must have the same number of sequences, got "
            f"{[len(own) for own in parts]}"
        )
    shifts = [0, *accumulate(x.shape[0] for x in input)]
    spans = [_spans(own, shift) for own, shift in zip(parts, shifts, strict=False)]
    rows = [span for same in zip(*spans, strict=True) for span in same]
    total = [sum(same) for same in zip(*parts, strict=True)]
    first = input[0]
    assert isinstance(first, LoDTensor)
    return relaid(_taken(ops.concat(*input, axis=0), rows), first, total)


def sequence_slice(
    input: Tensor, offset: Tensor, length: Tensor, name: str | None = None
) -> LoDTensor:
    """``length[i]`` rows of sequence i from ``offset[i]`` on."""
    lengths = lengths_of("sequence_slice", input)
    first, count = (t.numpy().reshape(-1) for t in (offset, length))
    if len(first) != len(lengths) or len(count) != len(lengths):
        raise ShapeError(
            "sequence_slice", f"offset and length must have {len(lengths)} numbers",
            [offset.shape, length.shape],
        )  # fmt: skip
    if (first < 0).any() or (count < 0).any() or (first + count > lengths).any():
        raise InvalidArgumentError(
            "[sequence_slice] a slice must be within its sequence, got offsets "
            f"{first.tolist()} and lengths {count.tolist()} of {lengths}"
        )
    spans = _spans(lengths)
    rows = [s[a : a + n] for s, a, n in zip(spans, first, count, strict=True)]
    assert isinstance(input, LoDTensor)
    return relaid(_taken(input, rows), input, count)


def sequence_expand(
    x: Tensor, y: Tensor, ref_level: int = -1, name: str | None = None
) -> Tensor:
    """Sequence i of x as often as level ``ref_level`` of y says.

    A tensor without lengths counts as sequences of one row.
    """
    lengths_of("sequence_expand", y)
    assert isinstance(y, LoDTensor)
    times = y._lengths[ref_level]
    own = x._lengths[-1] if isinstance(x, LoDTensor) and x._lengths else None
    parts = [1] * x.shape[0] if own is None else own
    if len(parts) != len(times):
        raise ShapeError(
            "sequence_expand", f"x must have {len(times)} sequences", [len(parts)]
        )
    rows, lengths = [], []
    for span, n in zip(_spans(parts), times, strict=True):
        rows += [span] * n
        lengths += [len(span)] * n
    out = _taken(x, rows)
    return with_lengths(out, [times if own is None else lengths])


def sequence_expand_as(x: Tensor, y: Tensor, name: str | None = None) -> LoDTensor:
    """Row i of x as often as sequence i of y has rows."""
    lengths = lengths_of("sequence_expand_as", y)
    if x.shape[0] != len(lengths):
        raise ShapeError(
            "sequence_expand_as", f"x must have {len(lengths)} rows", x.shape
        )
    rows = [np.repeat(np.arange(len(lengths)), lengths)]
    return with_lengths(_taken(x, rows), [lengths])


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
    lengths = np.array(lengths_of("sequence_pad", x), np.int64)
    longest = int(lengths.max(initial=0))
    width = longest if maxlen is None or maxlen == -1 else int(maxlen)
    if width < longest:
        raise InvalidArgumentError(
            f"[sequence_pad] maxlen must be at least {longest}, got {width}"
        )
    starts = np.cumsum(lengths) - lengths
    inside = np.arange(width) < lengths[:, None]
    index = np.where(inside, starts[:, None] + np.arange(width), 0)
    wide = ops.gather(x, index_of(index))
    mask = to_tensor(inside.reshape(*inside.shape, *[1] * (x.ndim - 1)))
    pad = pad_value if isinstance(pad_value, Tensor) else to_tensor(pad_value, x.dtype)
    pad = ops.cast(ops.reshape(pad, shape=[]) if pad.size == 1 else pad, dtype=x.dtype)
    return ops.where(mask, wide, pad), to_tensor(lengths)


def sequence_unpad(x: Tensor, length: Tensor, name: str | None = None) -> LoDTensor:
    """The reverse: the first length[i] rows of x[i], one sequence after another."""
    check_rank("sequence_unpad", "x", x, 2)
    lengths = length.numpy().reshape(-1)
    if len(lengths) != x.shape[0] or (lengths > x.shape[1]).any():
        raise ShapeError(
            "sequence_unpad", f"length must be {x.shape[0]} numbers to {x.shape[1]}",
            lengths.tolist(),
        )  # fmt: skip
    flat = ops.flatten(x, start_axis=0, stop_axis=1)
    rows = [np.arange(n) + i * x.shape[1] for i, n in enumerate(lengths)]
    return with_lengths(_taken(flat, rows), [lengths.tolist()])


def sequence_reshape(input: Tensor, new_dim: int) -> LoDTensor:
    """Rows of length new_dim, each sequence keeping its elements."""
    lengths = lengths_of("sequence_reshape", input)
    sizes = [n * input.shape[1] for n in lengths]
    if any(n % new_dim for n in sizes):
        raise ShapeError(
            "sequence_reshape", f"sequences must divide into rows of {new_dim}", sizes
        )
    assert isinstance(input, LoDTensor)
    out = ops.reshape(input, shape=[-1, new_dim])
    return relaid(out, input, [n // new_dim for n in sizes])


def sequence_scatter(
    input: Tensor, index: Tensor, updates: Tensor, name: str | None = None
) -> Tensor:
    """input (n, d) with sequence i of updates added to row i at the places in sequence
    i of index.
    """
    lengths = lengths_of("sequence_scatter", index)
    if len(lengths) != input.shape[0] or index.size != updates.size:
        raise ShapeError(
            "sequence_scatter", f"index must have {input.shape[0]} sequences",
            [len(lengths), index.size, updates.size],
        )  # fmt: skip
    rows = index_of(np.repeat(np.arange(len(lengths)), lengths))
    columns = ops.cast(ops.reshape(index, shape=[-1]), dtype=as_dtype("int64"))
    places = ops.stack(rows, columns, axis=1)
    added = ops.scatter_nd_like(ops.reshape(updates, shape=[-1]), places, input)
    return ops.add(input, added)


def sequence_enumerate(
    input: Tensor, win_size: int, pad_value: int = 0, name: str | None = None
) -> LoDTensor:
    """Each id with the win_size - 1 after it in its sequence, (n, win_size)."""
    lengths = lengths_of("sequence_enumerate", input)
    flat = ops.reshape(input, shape=[-1])
    near = [s[:, None] + np.arange(win_size) for s in _spans(lengths)]
    ends = np.repeat(np.cumsum(lengths), lengths)[:, None]
    index = np.concatenate(near) if near else np.zeros((0, win_size), np.int64)
    inside = index < ends
    out = ops.gather(flat, index_of(np.where(inside, index, 0)))
    pad = ops.full(shape=[], value=pad_value, dtype=input.dtype)
    assert isinstance(input, LoDTensor)
    return relaid(ops.where(to_tensor(inside), out, pad), input, lengths)


def sequence_reverse(x: Tensor, name: str | None = None) -> LoDTensor:
    """Each sequence from its end to its beginning."""
    lengths = lengths_of("sequence_reverse", x)
    assert isinstance(x, LoDTensor)
    return relaid(_taken(x, [s[::-1] for s in _spans(lengths)]), x, lengths)
