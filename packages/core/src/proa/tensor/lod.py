"""Rows of several sequences in one tensor, with the sequences' lengths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.tensor.creation import to_tensor

Lengths = Sequence[Sequence[int]]


class LoDTensor(Tensor):
    """A tensor whose rows belong to sequences ("level of detail").

    The last level of lengths counts rows, each one before it sequences of the next:
    ``[[2, 1], [3, 1, 2]]`` are two groups, one of a sequence of 3 rows and one of 1,
    the other of one with 2 rows.

    Args:
        data: The rows, whose memory it takes over.
    """

    _lengths: list[list[int]]

    def __init__(self, data: Tensor) -> None:
        super().__init__()
        self._lengths = []

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """The lengths by level."""
        return [list(level) for level in self._lengths]

    def set_recursive_sequence_lengths(
        self, recursive_sequence_lengths: Lengths
    ) -> None:
        """Say which rows belong together.

        Raises:
            InvalidArgumentError: If lengths do not add up to what is below them.
        """
        levels = [[int(n) for n in level] for level in recursive_sequence_lengths]
        below = [*(len(level) for level in levels[1:]), self.shape[0]]
        for level, count in zip(levels, below, strict=True):
            if sum(level) != count or min(level, default=0) < 0:
                raise InvalidArgumentError(
                    f"[LoDTensor] lengths of a level must add up to {count}, "
                    f"got {level}"
                )
        self._lengths = levels

    def lod(self) -> list[list[int]]:
        """The same as offsets: where each part begins, and the end."""
        return [list(accumulate(level, initial=0)) for level in self._lengths]

    def set_lod(self, lod: Lengths) -> None:
        """Say by offsets which rows belong together."""
        self.set_recursive_sequence_lengths(
            [[b - a for a, b in pairwise(level)] for level in lod]
        )

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the lengths add up to the rows there are now."""
        return not self._lengths or sum(self._lengths[-1]) == self.shape[0]


def with_lengths(value: Tensor, lengths: Lengths) -> LoDTensor:
    """A tensor, in its place on the tape, with lengths."""
    tensor = LoDTensor(value.detach())
    tensor._become(value)
    tensor.set_recursive_sequence_lengths(lengths)
    return tensor


def create_lod_tensor(
    data: Any, recursive_seq_lens: Lengths, place: object = None
) -> Any:
    """A `LoDTensor` of an array, a tensor or a list of sequences, and lengths."""
    if isinstance(data, list):
        data = [row for sequence in data for row in sequence]
    value = data if isinstance(data, Tensor) else to_tensor(data)
    return with_lengths(value, recursive_seq_lens)


def joined_lengths(parts: Sequence[Tensor]) -> list[list[int]] | None:
    """Lengths of rows joined one after another; None unless all have such levels."""
    levels = [p._lengths for p in parts if isinstance(p, LoDTensor) and p._lengths]
    if len(levels) != len(parts) or len({len(own) for own in levels}) != 1:
        return None
    return [list(chain(*same)) for same in zip(*levels, strict=True)]
