"""The table of 1.x names, `names.tsv`: what each is called in 2.x."""

from __future__ import annotations

import csv
import functools
import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("names.tsv")
#: In place of a new name: an argument that goes away.
DROPPED = "-"
#: In place of a new name: an activation that is applied to the result.
ACTIVATION = "@"
#: In place of a new name: a Variable that the result is assigned to.
OUTPUT = ">"
MARKS = (DROPPED, ACTIVATION, OUTPUT)
#: Of what has no equal in 2.x; it has the names and arguments of 1.x.
FLUID = "paddle.migrate.fluid."


@dataclass(frozen=True)
class Row:
    """One name of 1.x.

    Attributes:
        old: ``paddle.fluid.layers.fc``.
        new: Its name in 2.x; empty if there is none.
        arguments: The parameters of the old name, in order, and their new names.
        rule: The function of `proa.migrate.rules` for what names cannot say.
        note: What to do by hand, or to know.
    """

    old: str
    new: str
    arguments: tuple[tuple[str, str], ...]
    rule: str
    note: str

    @property
    def is_class(self) -> bool:
        """Whether the new name is one of a class."""
        return self.new.rpartition(".")[2][:1].isupper()

    @property
    def takes_old_arguments(self) -> bool:
        """Whether the new name takes the arguments of the old one."""
        return self.new.startswith(FLUID) and not self.rule

    def new_order(self, new: str) -> list[str]:
        """The parameters of the new name, in order."""
        try:
            parameters = inspect.signature(found(new)).parameters.values()
        except (AttributeError, TypeError, ValueError):
            names = [new for _, new in self.arguments]
            return [new for new in names if new not in MARKS]
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
        return [p.name for p in parameters if p.kind in kinds]


def found(name: str) -> Any:
    """Proa's object of a name that begins with ``paddle``.

    Raises:
        AttributeError: If there is none.
    """
    value: Any = importlib.import_module("proa")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def _renames(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (item.partition("=") for item in text.split())
    return tuple((old, new or old) for old, _, new in pairs)


@functools.cache
def rows() -> dict[str, Row]:
    """The table, by old name."""
    with PATH.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {
        row["old"]: Row(
            row["old"],
            "" if row["new"] == DROPPED else row["new"],
            _renames(row["arguments"]),
            row["rule"],
            row["note"],
        )
        for row in table
    }


def lookup(name: str) -> Row | None:
    """The row of a name, also of one in a submodule of where it is documented.

    ``paddle.fluid.dygraph.nn.Linear`` is found as ``paddle.fluid.dygraph.Linear``.
    """
    parts = name.split(".")
    last = parts[-1]
    for end in range(len(parts) - 1, 1, -1):
        row = rows().get(".".join([*parts[:end], last]))
        if row is not None:
            return row
    return None


def member(name: str) -> tuple[Row, str] | None:
    """The row of a class and the new name of what is in it.

    ``paddle.fluid.BuildStrategy.ReduceStrategy`` is in ``paddle.static.BuildStrategy``.
    """
    head, rest = name, ""
    while "." in head:
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
        row = lookup(head) if head in rows() else None
        if row is not None:
            return (row, row.new + rest) if row.is_class else None
    return None
