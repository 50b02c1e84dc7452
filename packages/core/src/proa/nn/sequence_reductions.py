"""Sequences of rows reduced, normalised and seen through windows.

A function takes rows with their `RowSequences`; rows that stay keep them.
"""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.sequences import RowSequences, last_index, per_row
from proa.tensor.creation import zeros

POOLS = ("sum", "average", "sqrt", "max", "first", "last")


def summed(x: Tensor, sequences: RowSequences) -> Tensor:
    """The sum of each sequence's rows."""
    like = zeros([sequences.count, *x.shape[1:]], x.dtype)
    # Adding rows where they were gathered from is the gradient of gathering.
    return ops.gather_grad(x, sequences.owners(), like, axis=0)


def greatest_rows(x: Tensor, sequences: RowSequences) -> Tensor:
    """The greatest of each sequence's rows, -inf of none."""
    index, inside = sequences.grid(sequences.step_numbers())
    wide = ops.gather(x, index, axis=0)  # (sequences, steps, ..)
    tail = list(range(2, x.ndim + 1))
    mask = ops.unsqueeze(inside, axis=tail) if tail else inside
    never = ops.full(shape=[], value=float("-inf"), dtype=x.dtype)
    return ops.max(ops.where(mask, wide, never), axis=[1])


def pool(x: Tensor, sequences: RowSequences, kind: str, pad_value: float) -> Tensor:
    """One row for each sequence, pad_value for one of no rows.

    Raises:
        InvalidArgumentError: If kind is none of `POOLS`.
    """
    lengths = sequences.lengths
    if kind in ("sum", "average", "sqrt"):
        out = summed(x, sequences)
        if kind != "sum":
            size = per_row(out, ops.maximum(lengths, 1))
            out = ops.div(out, size if kind == "average" else ops.sqrt(size))
    elif kind == "max":
        out = greatest_rows(x, sequences)
    elif kind in ("first", "last"):
        row = sequences.starts if kind == "first" else ops.sub(sequences.ends, 1)
        inside = ops.minimum(ops.maximum(row, 0), last_index(x))
        out = ops.gather(x, inside, axis=0)
    else:
        raise InvalidArgumentError(
            f"[sequence_pool] pool_type must be one of {', '.join(POOLS)}, got {kind!r}"
        )
    pad = ops.full(shape=[], value=float(pad_value), dtype=out.dtype)
    return ops.where(per_row(out, ops.greater_than(lengths, 0)), out, pad)


def softmax(x: Tensor, sequences: RowSequences) -> Tensor:
    """Softmax over the rows of each sequence; rows are (n,) or (n, 1).

    Raises:
        ShapeError: If they are not.
    """
    if x.ndim > 2 or (x.ndim == 2 and x.shape[1] != 1):
        raise ShapeError("sequence_softmax", "rows must be (n,) or (n, 1)", x.shape)
    owners = sequences.owners()
    peak = ops.gather(greatest_rows(x, sequences).detach(), owners, axis=0)
    powers = ops.exp(ops.sub(x, peak))
    return ops.div(powers, ops.gather(summed(powers, sequences), owners, axis=0))


def _window(sequences: RowSequences, size: int, first: int) -> tuple[Tensor, Tensor]:
    """(row, whether there is one) at each place of each row's window (n, size)."""
    owners = sequences.owners()
    shift = ops.arange(start=first, step=1, count=size, dtype="int64")
    place = ops.unsqueeze(sequences.places(owners), axis=[1])
    near = ops.add(place, shift)
    length = ops.unsqueeze(ops.gather(sequences.lengths, owners, axis=0), axis=[1])
    inside = ops.logical_and(ops.greater_equal(near, 0), ops.less_than(near, length))
    row = ops.add(ops.unsqueeze(sequences.row_numbers(), axis=[1]), shift)
    return ops.where(inside, row, 0), inside


def windows(x: Tensor, sequences: RowSequences, size: int, first: int) -> Tensor:
    """Rows (n, d) -> (n, size * d): those from row + first on; zeros beyond the ends
    of a sequence.
    """
    index, inside = _window(sequences, size, first)
    wide = ops.gather(x, index, axis=0)  # (n, size, d)
    mask = ops.cast(ops.unsqueeze(inside, axis=[2]), dtype=x.dtype)
    return ops.flatten(ops.mul(wide, mask), start_axis=1, stop_axis=2)


def enumerated(
    ids: Tensor, sequences: RowSequences, size: int, pad_value: int
) -> Tensor:
    """Each id with the size - 1 after it in its sequence, (n, size)."""
    index, inside = _window(sequences, size, 0)
    near = ops.gather(ops.reshape(ids, shape=[-1]), index, axis=0)
    pad = ops.full(shape=[], value=pad_value, dtype=ids.dtype)
    return ops.where(inside, near, pad)
