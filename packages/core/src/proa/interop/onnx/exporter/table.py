"""The mapping table: one row for each operator of Proa and the opset it holds from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

#: The opsets that models can be written for.
OPSETS = range(9, 22)

Rule = Callable[..., Any]
_AnyRule = TypeVar("_AnyRule", bound=Rule)


@dataclass(frozen=True)
class Row:
    """How an operator is written from ``since`` on, until the next row of its name.

    Attributes:
        rule: Called with a `Call`, the arrays, and the attributes by keyword; returns
            one `Ref` for each output, or one for the first alone if nothing can read
            the others.
    """

    rule: Rule
    since: int


_ROWS: dict[str, list[Row]] = {}


def export_row(*names: str, since: int = OPSETS[0]) -> Callable[[_AnyRule], _AnyRule]:
    """Let the decorated function write these operators from an opset on."""

    def added(rule: _AnyRule) -> _AnyRule:
        for name in names:
            rows = _ROWS.setdefault(name, [])
            rows.append(Row(rule, since))
            rows.sort(key=lambda row: row.since)
        return rule

    return added


def find_row(name: str, opset: int) -> Row | None:
    """The row that holds at an opset, or None."""
    rows = _ROWS.get(name, [])
    return next((row for row in reversed(rows) if row.since <= opset), None)
