"""Which values of a program have rows that make sequences, and their lengths.

A level of lengths is a value of its own, int64. A row of the table that computes with
lengths names them as a slot, ``X@LOD*``; those of what it makes are ``Out@LOD*``, or
``Out@OUTER*`` if they are X's without the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from proa.interop.graph.node import Info
from proa.interop.paddle.importer.table import SlotRow
from proa.interop.paddle.proto import LOD_TENSOR

#: What the names of slots of lengths end with; the latter those of the outer levels.
_LENGTHS, _OUTER = "@LOD", "@OUTER"
#: Inputs whose lengths an operator passes on before those of others.
_FIRST = ("X", "Input", "Ids", "Logits")


def lengths_name(name: str, level: int) -> str:
    """The input of a program that has a level's lengths of other data."""
    return f"{name}@LENGTHS_{level}"


def level_count(variable: Any) -> int:
    """How many levels a variable has."""
    if variable is None or variable.type.type != LOD_TENSOR:
        return 0
    return int(variable.type.lod_tensor.lod_level)


class Lengths:
    """The lengths of values while a program is read.

    Attributes:
        levels: Values -> the values that are their lengths, by level.
    """

    def __init__(self) -> None:
        self.levels: dict[str, list[str]] = {}

    def declare(self, name: str, variable: Any) -> None:
        """Data of the program."""
        count = level_count(variable)
        if count:
            self.levels[name] = [lengths_name(name, k) for k in range(count)]

    def infos(self, used: Iterable[str]) -> list[Info]:
        """The inputs with lengths among the names that are used."""
        wanted, found = set(used), dict[str, None]()
        for name, levels in self.levels.items():
            inputs = [lengths_name(name, k) for k in range(len(levels))]
            if levels == inputs:
                found.update(dict.fromkeys(n for n in inputs if n in wanted))
        return [Info(name, "int64", [None]) for name in found]

    def pass_on(
        self,
        row: SlotRow,
        inputs: dict[str, list[str]],
        outputs: dict[str, list[str]],
        variable_of: Callable[[str], Any],
    ) -> None:
        """Add slots of lengths to an operator's inputs and outputs; what its row makes
        without them has those of what it reads.

        Args:
            inputs, outputs: Values by slot.
            variable_of: The variable that a value is of.
        """
        for slot in row.inputs:
            if slot.name.endswith(_LENGTHS):
                given = inputs.get(slot.name.removesuffix(_LENGTHS), [])
                inputs[slot.name] = [n for v in given for n in self.levels.get(v, [])]
        own = [s.name for s in row.outputs if s.name.endswith((_LENGTHS, _OUTER))]
        for name in own:
            of, _, kind = name.rpartition("@")
            (value,) = outputs[of]
            count = max(level_count(variable_of(value)), 1)
            if f"@{kind}" == _OUTER:
                count = max(len(self.levels.get(inputs["X"][0], ())) - 1, 0)
            levels = [f"{value}{_LENGTHS}_{k}" for k in range(count)]
            outputs[name] = levels
            if levels:
                self.levels[value] = levels
        if own:
            return
        order = sorted(inputs, key=lambda s: _FIRST.index(s) if s in _FIRST else 9)
        read = [self.levels[v] for s in order for v in inputs[s] if v in self.levels]
        for value in (v for values in outputs.values() for v in values):
            count = level_count(variable_of(value))
            fitting = [levels for levels in read if len(levels) == count]
            if count and fitting:
                self.levels[value] = fitting[0]
