"""Indices of axes that must be removed together, as a union-find over labels.

Every index of an axis that may shrink has a label, an integer. Labels that are joined
name one unit: all their indices stay, or all go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

#: The label of each index of an axis.
Labels = NDArray[np.int64]
#: Which indices of an axis remain, by its labels.
Remaining = Callable[[Labels], NDArray[np.bool_]]


class Units:
    """Labels, which of them are joined, and which must stay and why."""

    def __init__(self) -> None:
        self.count = 0
        self._pairs: list[tuple[Labels, Labels]] = []
        self._protected: list[tuple[Labels, object]] = []

    def new(self, count: int) -> Labels:
        """Labels of another axis."""
        first, self.count = self.count, self.count + count
        return np.arange(first, self.count, dtype=np.int64)

    def join(self, a: Labels, b: Labels) -> None:
        """Index i of one and index i of the other go together."""
        if a is not b:
            self._pairs.append((a, b))

    def join_rows(self, grid: Labels) -> Labels:
        """Let every row of (rows, n) go together, element by element; the first."""
        for row in grid[1:]:
            self.join(grid[0], row)
        first: Labels = grid[0]
        return first

    def keep(self, labels: Labels, reason: object) -> None:
        """None of these may be removed."""
        self._protected.append((labels, reason))

    def resolve(self) -> Resolved:
        """The units that follow from all that was said."""
        root = np.arange(self.count, dtype=np.int64)
        if self._pairs:
            a = np.concatenate([pair[0] for pair in self._pairs])
            b = np.concatenate([pair[1] for pair in self._pairs])
            while True:
                low = np.minimum(root[a], root[b])
                np.minimum.at(root, root[a], low)
                np.minimum.at(root, root[b], low)
                while not np.array_equal(root[root], root):
                    root = root[root]
                if np.array_equal(root[a], root[b]):
                    break
        reasons: dict[int, object] = {}
        for labels, reason in self._protected:
            for unit in np.unique(root[labels]):
                reasons.setdefault(int(unit), reason)
        return Resolved(root, reasons)


class Resolved:
    """The unit of each label.

    Attributes:
        root: The unit of a label is the least label of it.
        reasons: Why a unit must stay.
    """

    def __init__(self, root: Labels, reasons: dict[int, object]) -> None:
        self.root, self.reasons = root, reasons
        self._stays = np.zeros(len(root) + 1, np.bool_)
        self._stays[list(reasons)] = True

    def of(self, labels: Labels) -> Labels:
        """The units of labels."""
        found: Labels = self.root[labels]
        return found

    def removable(self, labels: Labels) -> Labels:
        """The units of labels, -1 of those that must stay."""
        units = self.root[labels]
        return np.where(self._stays[units], np.int64(-1), units)

    def removal(self, removed: Iterable[int]) -> Remaining:
        """Which labels remain if these units are removed."""
        gone = np.isin(self.root, np.fromiter(removed, np.int64))
        return lambda labels: ~gone[labels]
