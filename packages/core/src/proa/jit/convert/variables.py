"""Variables of a running function, read and written by the functions made of its parts.

A variable that both a function and those in it use lives in a cell, which the latter
hold. An empty cell is a variable without a value: Python itself reports its use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

from proa import _core
from proa.jit.convert.lattice import UNDEFINED

Function = Callable[..., Any]


class _Variable:
    """A variable, or with `path` an attribute of one.

    With `contents`, a list or dictionary that is changed rather than bound.
    """

    def __init__(self, name: str, cells: dict[str, CellType]) -> None:
        self.name = name
        self.contents = name.endswith("[]")
        root, *self._path = name.removesuffix("[]").split(".")
        self._cell = cells.get(root)

    def _owner(self) -> Any:
        owner = self._cell and self._cell.cell_contents
        for attribute in self._path[:-1]:
            owner = getattr(owner, attribute)
        return owner

    def read(self) -> Any:
        try:
            if self._path:
                return getattr(self._owner(), self._path[-1])
            return self._cell.cell_contents if self._cell else UNDEFINED
        except (AttributeError, ValueError):  # there is none, or the cell is empty
            return UNDEFINED

    def write(self, value: Any) -> None:
        if self._cell is None:
            return
        if not self._path:
            if value is UNDEFINED:
                del self._cell.cell_contents
            else:
                self._cell.cell_contents = value
        elif self.read() is not value:
            if value is UNDEFINED:
                delattr(self._owner(), self._path[-1])
            else:
                setattr(self._owner(), self._path[-1], value)


class Variables:
    """What some functions may change of their variables, by name.

    ``self.x`` is an attribute; ``x[]`` what is in the list or dictionary x.
    """

    def __init__(
        self,
        functions: Sequence[Function | None],
        names: Sequence[str],
        others: Sequence[str] = (),
    ) -> None:
        cells: dict[str, CellType] = {}
        for function in functions:
            if isinstance(function, FunctionType) and function.__closure__:
                names_here = function.__code__.co_freevars
                cells.update(zip(names_here, function.__closure__, strict=True))
        every = [_Variable(name, cells) for name in names]
        self._variables = [
            p for p in every if not p.contents or _is_container(p.read())
        ]
        self.names = [p.name for p in self._variables]
        self._first = self.read()
        #: Variables that end with the functions, with what they had before.
        self._others = [(p, p.read()) for p in (_Variable(n, cells) for n in others)]

    def read(self) -> list[Any]:
        """The values, or UNDEFINED."""
        return [p.read() for p in self._variables]

    def write(self, values: Sequence[Any]) -> None:
        """Give the variables these values."""
        for variable, value in zip(self._variables, values, strict=True):
            variable.write(value)

    def begin(self) -> None:
        """Give the variables what they had, containers as copies that may change."""
        self.write([_copied(value) for value in self._first])
        self._end_others()

    def _end_others(self) -> None:
        for variable, value in self._others:
            variable.write(value)

    def restore(self) -> None:
        """Give the variables what they had."""
        self.write(self._first)

    def finish(self, values: Sequence[Any]) -> None:
        """Give the variables their last values; containers stay the same objects."""
        self._end_others()
        for variable, first, value in zip(
            self._variables, self._first, values, strict=True
        ):
            if variable.contents and type(first) is type(value):
                variable.write(_merged(first, value))
            else:
                variable.write(value)


def _merged(old: Any, new: Any) -> Any:
    """The old container with what the new one has; else the new value."""
    if type(old) is not type(new) or not _is_container(old):
        return new
    if isinstance(old, list):
        known: list[Any] = old + [None] * (len(new) - len(old))
        old[:] = [_merged(*both) for both in zip(known, new, strict=False)]
    else:
        items = {key: _merged(old.get(key), v) for key, v in new.items()}
        old.clear()
        old.update(items)
    return old


def _is_container(value: Any) -> bool:
    return type(value) in (list, dict, _core.Shape)


def _copied(value: Any) -> Any:
    if type(value) in (list, _core.Shape):
        return [_copied(v) for v in value]
    if type(value) is dict:
        return {key: _copied(v) for key, v in value.items()}
    return value
