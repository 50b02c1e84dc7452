"""How the rows of a tensor make sequences, as tensors: also while a graph is recorded.

Everything that an operator on sequences needs to know of rows follows from their
lengths: which sequence a row belongs to, its place there, where a sequence begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.jit.control_flow import cond, while_loop
from proa.tensor.creation import arange, to_tensor, zeros
from proa.tensor.lod import LoDTensor, with_lengths
from proa.tensor.symbolic_dims import number_of

#: The greatest number that `counted` counts to is below twice this.
_HIGHEST_BIT = 1 << 30


@dataclass
class RowSequences:
    """The sequences that rows make.

    Attributes:
        levels: Lengths, each (count,) int64. The last level's are numbers of rows,
            those of a level before it are numbers of entries of the next.
        steps: 0, 1, .. below the greatest number of rows; None if that must be computed
            from the lengths.
        rows: A tensor with these rows or as many; None if they are as many as the
            lengths say, which must be computed.
    """

    levels: list[Tensor]
    steps: Tensor | None = None
    rows: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """Rows of each sequence."""
        return self.levels[-1]

    @property
    def count(self) -> Any:
        """How many sequences there are, which may be symbolic."""
        return self.lengths.shape[0]

    @property
    def ends(self) -> Tensor:
        """The row after each sequence."""
        return ops.cumsum(self.lengths, axis=0)

    @property
    def starts(self) -> Tensor:
        """The first row of each sequence."""
        return ops.sub(self.ends, self.lengths)

    def row_numbers(self) -> Tensor:
        """0, 1, .. for each row."""
        if self.rows is None:
            return counted(ops.sum(self.lengths))
        return row_numbers_of(self.rows)

    def step_numbers(self) -> Tensor:
        """0, 1, .. below the greatest number of rows."""
        return counted(greatest(self.lengths)) if self.steps is None else self.steps

    def owners(self) -> Tensor:
        """Which sequence each row belongs to: how many end at it or before."""
        numbers = self.row_numbers()
        marks = zeros([numbers.shape[0] + 1], "int64")
        ones = ops.full_like(self.ends, value=1, dtype="int64")
        ended = ops.scatter_nd_like(ones, ops.unsqueeze(self.ends, axis=[1]), marks)
        before = ops.cumsum(ended, axis=0)
        return ops.gather(before, numbers, axis=0)

    def places(self, owners: Tensor) -> Tensor:
        """The number of each row in its sequence."""
        return ops.sub(self.row_numbers(), ops.gather(self.starts, owners, axis=0))

    def grid(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """(row, whether there is one) of sequence i at step t; row 0 where none is."""
        step = ops.unsqueeze(steps, axis=[0])
        inside = ops.less_than(step, ops.unsqueeze(self.lengths, axis=[1]))
        row = ops.add(ops.unsqueeze(self.starts, axis=[1]), step)
        return ops.where(inside, row, 0), inside


def greatest(lengths: Tensor) -> Tensor:
    """The greatest of lengths, 0 of none."""
    none = ops.full(shape=[1], value=0, dtype="int64")
    return ops.max(ops.concat(none, lengths, axis=0))


def counted(number: Tensor) -> Tensor:
    """0, 1, .. below a number, int64.

    No size of a graph may follow from a value: there a loop over the number's bits
    doubles an array in each round.
    """
    if not number._is_symbolic:
        return arange(int(number))
    bit = ops.full_like(number, value=_HIGHEST_BIT, dtype="int64")
    none = ops.full(shape=[0], value=0, dtype="int64")
    one = ops.full(shape=[1], value=0, dtype="int64")

    def doubled(bit: Tensor, array: Tensor) -> list[Tensor]:
        twice = ops.concat(array, array, axis=0)
        is_set = ops.equal(ops.mod(ops.floor_div(number, bit), 2), 1)
        grown = cond(
            is_set,
            lambda: ops.concat(twice, one, axis=0),
            lambda: ops.concat(twice, none, axis=0),
        )
        return [ops.floor_div(bit, 2), grown]

    def goes_on(bit: Tensor, array: Tensor) -> Tensor:
        return ops.greater_than(bit, 0)

    result = while_loop(goes_on, doubled, [bit, none])[1]
    ones = ops.full_like(result, value=1, dtype="int64")
    return ops.sub(ops.cumsum(ones, axis=0), 1)


def row_numbers_of(x: Tensor) -> Tensor:
    """0, 1, .. for each row of x, whose number may be symbolic."""
    return arange(x.shape[0], dtype="int64")


def index_of(values: Any) -> Tensor:
    """Numbers as a tensor."""
    return to_tensor(np.asarray(values, np.int64))


def host_lengths(lengths: Tensor) -> list[int] | None:
    """Lengths as numbers; None while a graph is recorded."""
    return None if lengths._is_symbolic else [int(n) for n in lengths.numpy()]


def of_lists(levels: Sequence[Sequence[int]]) -> RowSequences:
    """Those of known lengths, by level."""
    last = levels[-1]
    return RowSequences(
        [index_of(level) for level in levels],
        index_of(np.arange(max(last, default=0))),
        index_of(np.arange(sum(last))),
    )


def of_lod_tensor(where: str, x: Any) -> RowSequences:
    """Those of a LoDTensor.

    Raises:
        InvalidArgumentError: If it is none, or has no lengths.
    """
    if not isinstance(x, LoDTensor) or not x._lengths:
        raise InvalidArgumentError(
            f"[{where}] input must be a LoDTensor with lengths, got {type(x).__name__}"
        )
    return of_lists(x._lengths)


def as_lod_tensor(rows: Tensor, sequences: RowSequences) -> LoDTensor:
    """Rows with known lengths."""
    return with_lengths(rows, [level.numpy().tolist() for level in sequences.levels])


def ones_each(x: Tensor) -> RowSequences:
    """Sequences of one row each."""
    numbers = row_numbers_of(x)
    one = ops.full_like(numbers, value=1, dtype="int64")
    first = ops.full(shape=[1], value=0, dtype="int64")
    return RowSequences([one], first, numbers)


def per_row(x: Tensor, numbers: Tensor) -> Tensor:
    """Numbers (n,) in x's dtype and in a shape that broadcasts with its rows."""
    tail = list(range(1, x.ndim))
    column = ops.unsqueeze(numbers, axis=tail) if tail else numbers
    return column if column.dtype.name == "bool" else ops.cast(column, dtype=x.dtype)


def last_index(x: Tensor) -> Tensor:
    """The number of x's last row, 0 of none."""
    size = ops.cast(number_of(x.shape[0]), dtype="int64")
    return ops.maximum(ops.sub(size, 1), 0)
