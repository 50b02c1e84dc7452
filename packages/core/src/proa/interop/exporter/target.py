"""What a program is written to: arrays by name, and sizes that are known already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proa.ir.program import Array

#: Constants of more elements are written again each time they are used.
_FEW = 64


class NotExpressibleError(Exception):
    """The format has nothing that gives the results."""


@dataclass(frozen=True, eq=False)
class Ref:
    """An array of the model that is written.

    Attributes:
        shape: As far as it is known; -1 is a symbolic dimension.
        data: The elements of a constant, as `proa.ir` holds them.
        whole: Whether it is a float32 array that stands for one of int8.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    data: Array | None = None
    whole: bool = False

    @property
    def rank(self) -> int:
        """How many axes it has."""
        if self.shape is None:
            raise AssertionError(f"the rank of {self.name} is not known")
        return len(self.shape)


class Target(ABC):
    """A model while it is written.

    Attributes:
        stem: What the names of new arrays begin with.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._constants: dict[tuple[Any, ...], Ref] = {}
        #: Sizes computed in each body that is open, by the array or what else has them.
        self._sizes: list[dict[Any, Ref]] = [{}]

    # -- names -----------------------------------------------------------------------
    def take(self, name: str) -> str:
        """The name, or one like it if an array has it already."""
        found = name
        while found in self._taken:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found

    def rename(self, ref: Ref, name: str) -> None:  # noqa: B027 (not every format can)
        """Let what an operator of this body made have a name of its own, if it can."""

    # -- constants -------------------------------------------------------------------
    @abstractmethod
    def named_constant(self, name: str, data: Array, dtype: str) -> Ref:
        """A constant with a name."""

    def constant(self, data: Array, dtype: str) -> Ref:
        """A constant without a name; small ones are kept once."""
        few = data.size <= _FEW
        key = (dtype, data.shape, data.tobytes()) if few else (id(data),)
        if key not in self._constants:
            name = "const" if few else f"{self.stem}.const"
            self._constants[key] = self.named_constant(name, data, dtype)
        return self._constants[key]

    # -- sizes -----------------------------------------------------------------------
    def remembered(self, key: Any) -> Ref | None:
        """A size that was computed where it can still be read."""
        return next((sizes[key] for sizes in self._sizes if key in sizes), None)

    def remember(self, key: Any, size: Ref) -> Ref:
        """Let others in this body read a size."""
        self._sizes[-1][key] = size
        return size

    @contextmanager
    def own_sizes(self) -> Iterator[None]:
        """While open, sizes are those of a body, which others cannot read."""
        self._sizes.append({})
        try:
            yield
        finally:
            self._sizes.pop()
