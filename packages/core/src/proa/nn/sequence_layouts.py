"""Sequences of rows concatenated, cut, repeated, padded and reversed.

A function takes rows with their `RowSequences` and gives others with theirs. Arguments
that are values are checked where they are known; in a graph a run refuses them, as they
make an index that is out of range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.sequences import RowSequences, host_lengths, ones_each, row_numbers_of
from proa.tensor.creation import arange, to_tensor, zeros
from proa.tensor.symbolic_dims import SymbolicDim, number_of

#: An index that no array has: what a run refuses.
_BEYOND = 1 << 40

Rows = tuple[Tensor, RowSequences]


def _differ(a: Any, b: Any) -> bool:
    """Whether sizes are known and differ."""
    known = not isinstance(a, SymbolicDim) and not isinstance(b, SymbolicDim)
    return known and int(a) != int(b)


def _refused(index: Tensor, bad: Tensor) -> Tensor:
    """An index that runs refuse if any of bad holds."""
    wrong = ops.max(ops.concat(ops.full(shape=[1], value=0, dtype="int64"),
                               ops.cast(bad, dtype="int64"), axis=0))  # fmt: skip
    return ops.add(index, ops.mul(wrong, _BEYOND))


def concatenated(xs: Sequence[Tensor], own: Sequence[RowSequences]) -> Rows:
    """Sequence i of every input one after another, for each i."""
    counts = [s.count for s in own]
    if any(_differ(counts[0], n) for n in counts):
        raise InvalidArgumentError(
            "[sequence_concat] inputs must have the same number of sequences, got "
            f"{list(map(int, counts))}"
        )
    total = own[0].lengths
    for s in own[1:]:
        total = ops.add(total, s.lengths)
    before = ops.sub(ops.cumsum(total, axis=0), total)
    targets = []
    for s in own:
        owners = s.owners()
        targets.append(ops.add(ops.gather(before, owners, axis=0), s.places(owners)))
        before = ops.add(before, s.lengths)
    joined = ops.concat(*xs, axis=0)
    numbers = row_numbers_of(joined)
    target = ops.unsqueeze(ops.concat(*targets, axis=0), axis=[1])
    blank = zeros([joined.shape[0]], "int64")
    index = ops.scatter_nd_like(numbers, target, blank)
    sequences = RowSequences([*own[0].levels[:-1], total], None, numbers)
    return ops.gather(joined, index, axis=0), sequences


def sliced(x: Tensor, own: RowSequences, offset: Tensor, length: Tensor) -> Rows:
    """``length[i]`` rows of sequence i from ``offset[i]`` on."""
    first, count = (
        ops.cast(ops.reshape(t, shape=[-1]), dtype="int64") for t in (offset, length)
    )
    if any(_differ(t.shape[0], own.count) for t in (first, count)):
        raise ShapeError(
            "sequence_slice", f"offset and length must have {own.count} numbers",
            [offset.shape, length.shape],
        )  # fmt: skip
    end = ops.add(first, count)
    bad = ops.logical_or(
        ops.less_than(ops.minimum(first, count), 0), ops.greater_than(end, own.lengths)
    )
    if not bad._is_symbolic and bool(bad.numpy().any()):
        raise InvalidArgumentError(
            "[sequence_slice] a slice must be within its sequence, got offsets "
            f"{first.numpy().tolist()} and lengths {count.numpy().tolist()} of "
            f"{host_lengths(own.lengths)}"
        )
    sequences = RowSequences([*own.levels[:-1], count])
    sequences.rows = sequences.row_numbers()
    owners = sequences.owners()
    start = ops.gather(ops.add(own.starts, first), owners, axis=0)
    index = _refused(ops.add(start, sequences.places(owners)), bad)
    return ops.gather(x, index, axis=0), sequences


def expanded(x: Tensor, own: RowSequences | None, y: RowSequences, level: int) -> Rows:
    """Sequence i of x (row i, if x has no sequences) as often as a level of y says."""
    level = level + len(y.levels) if level < 0 else level
    if not 0 <= level < len(y.levels):
        raise InvalidArgumentError(
            f"[sequence_expand] ref_level must be one of y's {len(y.levels)} levels, "
            f"got {level}"
        )
    times = y.levels[level]
    parts = ones_each(x) if own is None else own
    if _differ(parts.count, times.shape[0]):
        raise ShapeError(
            "sequence_expand", f"x must have {times.shape[0]} sequences",
            [int(parts.count)],
        )  # fmt: skip
    # As many copies as entries of the level below, or rows.
    below = y.levels[level + 1] if level + 1 < len(y.levels) else None
    numbers = y.rows if below is None else row_numbers_of(below)
    copies = RowSequences([times], None, numbers)
    source = copies.owners()
    if own is None:
        steps = y.steps if below is None else None
        sequences = RowSequences([times], steps, copies.row_numbers())
        return ops.gather(x, source, axis=0), sequences
    sequences = RowSequences([ops.gather(own.lengths, source, axis=0)])
    sequences.rows = sequences.row_numbers()
    copy = sequences.owners()
    start = ops.gather(ops.gather(own.starts, source, axis=0), copy, axis=0)
    return ops.gather(x, ops.add(start, sequences.places(copy)), axis=0), sequences


def expanded_as(x: Tensor, y: RowSequences) -> Rows:
    """Row i of x as often as sequence i of y has rows."""
    if _differ(x.shape[0], y.count):
        raise ShapeError("sequence_expand_as", f"x must have {y.count} rows", x.shape)
    sequences = RowSequences([y.lengths], y.steps, y.rows)
    return ops.gather(x, sequences.owners(), axis=0), sequences


def padded(
    x: Tensor, own: RowSequences, pad_value: Any, maxlen: int | None
) -> tuple[Tensor, Tensor]:
    """Sequences side by side (sequences, maxlen, ..), and their lengths."""
    lengths = own.lengths
    width = None if maxlen is None or maxlen == -1 else int(maxlen)
    known = host_lengths(lengths)
    if width is not None and known is not None and width < max(known, default=0):
        raise InvalidArgumentError(
            f"[sequence_pad] maxlen must be at least {max(known)}, got {width}"
        )
    steps = own.step_numbers() if width is None else arange(width, dtype="int64")
    index, inside = own.grid(steps)
    if width is not None and known is None:
        index = _refused(index, ops.greater_than(lengths, width))
    wide = ops.gather(x, index, axis=0)
    tail = list(range(2, x.ndim + 1))
    mask = ops.unsqueeze(inside, axis=tail) if tail else inside
    pad = pad_value if isinstance(pad_value, Tensor) else to_tensor(pad_value, x.dtype)
    single = all(not _differ(n, 1) for n in pad.shape) and pad.ndim > 0
    pad = ops.cast(ops.reshape(pad, shape=[]) if single else pad, dtype=x.dtype)
    return ops.where(mask, wide, pad), ops.assign(lengths)


def unpadded(x: Tensor, length: Tensor, rows: Tensor | None = None) -> Rows:
    """The first length[i] rows of x[i], one sequence after another.

    Args:
        x: (sequences, steps, ..).
        length: As many numbers as sequences.
        rows: The numbers of the rows that come out, if they are known otherwise.
    """
    lengths = ops.cast(ops.reshape(length, shape=[-1]), dtype="int64")
    known, steps = host_lengths(lengths), x.shape[1]
    too_long = known is not None and (
        max(known, default=0) > steps or min(known, default=0) < 0
    )
    if _differ(lengths.shape[0], x.shape[0]) or too_long:
        raise ShapeError(
            "sequence_unpad", f"length must be {x.shape[0]} numbers to {steps}",
            known if known is not None else length.shape,
        )  # fmt: skip
    sequences = RowSequences([lengths], None, rows)
    sequences.rows = sequences.row_numbers()
    owners = sequences.owners()
    width = ops.cast(number_of(steps), dtype="int64")
    index = ops.add(ops.mul(owners, width), sequences.places(owners))
    if known is None:
        index = _refused(index, ops.greater_than(lengths, width))
    flat = ops.flatten(x, start_axis=0, stop_axis=1)
    return ops.gather(flat, index, axis=0), sequences


def reshaped(x: Tensor, own: RowSequences, new_dim: int) -> Rows:
    """Rows of length new_dim, each sequence keeping its elements."""
    width = int(x.shape[1])
    sizes = ops.mul(own.lengths, width)
    known = host_lengths(sizes)
    if known is not None and any(n % new_dim for n in known):
        raise ShapeError(
            "sequence_reshape", f"sequences must divide into rows of {new_dim}", known
        )
    lengths = ops.floor_div(sizes, new_dim)
    rows = ops.reshape(x, shape=[-1, new_dim])
    return rows, RowSequences([*own.levels[:-1], lengths], None, row_numbers_of(rows))


def scattered(x: Tensor, index: Tensor, own: RowSequences, updates: Tensor) -> Tensor:
    """x (n, d) with sequence i of updates added to row i at the places in sequence i of
    index.
    """
    places, added = (ops.reshape(t, shape=[-1]) for t in (index, updates))
    if _differ(own.count, x.shape[0]) or _differ(places.shape[0], added.shape[0]):
        raise ShapeError(
            "sequence_scatter", f"index must have {x.shape[0]} sequences",
            [own.count, places.shape[0], added.shape[0]],
        )  # fmt: skip
    columns = ops.cast(places, dtype="int64")
    at = ops.stack(own.owners(), columns, axis=1)
    return ops.add(x, ops.scatter_nd_like(added, at, x))


def reversed_rows(x: Tensor, own: RowSequences) -> Tensor:
    """Each sequence from its end to its beginning."""
    owners = own.owners()
    last = ops.gather(ops.sub(own.ends, 1), owners, axis=0)
    return ops.gather(x, ops.sub(last, own.places(owners)), axis=0)
