"""Mapping tables: one row for each operator of another framework."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proa.errors import UnimplementedError

if TYPE_CHECKING:
    from proa.interop.graph.call import Call

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """How an operator is computed from version ``since`` on, until its next row.

    Attributes:
        rule: Called with a `Call` and the node's inputs; None for one that is left out.
        folds: Whether the result of constants is a constant.
        host: Inputs that must be known when the graph is called: shapes, axes, scales.
            A constant there is not trained. Positions, or names of slots.
        state: Inputs that are buffers, not parameters.
        weights: Inputs where a constant is trained though it has one element.
    """

    rule: Rule
    since: int
    folds: bool
    host: tuple[Any, ...]
    state: tuple[Any, ...]
    weights: tuple[Any, ...]


@dataclass
class Table:
    """The rows of one framework.

    Attributes:
        api: What errors name.
        call: Makes what a rule sees of its node.
        sizes: Rules for arrays with symbolic dimensions, by operator.
    """

    api: str
    call: type[Call]
    sizes: Mapping[str, Rule]
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, name: str, row: Row) -> None:
        """Let a row compute an operator from its version on."""
        rows = self.rows.setdefault(name, [])
        rows.append(row)
        rows.sort(key=lambda row: row.since)

    def find(self, name: str, version: int = 1) -> Row | None:
        """The row that holds at a version, or None."""
        rows = self.rows.get(name, [])
        return next((row for row in reversed(rows) if row.since <= version), None)

    def missing(self, names: Mapping[str, str]) -> UnimplementedError:
        """The error of a model with operators that have no row.

        Args:
            names: What to say of each operator after its name.
        """
        lines = []
        for name in sorted(names):
            near = difflib.get_close_matches(name, sorted(self.rows), 3, 0.6)
            hint = f" (nearest: {', '.join(near)})" if near else ""
            lines.append(f"{name}{names[name]}{hint}")
        return UnimplementedError(
            f"[{self.api}.load] no row for these operators: " + "; ".join(lines)
        )
