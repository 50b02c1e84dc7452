"""The mapping table: one row for each ONNX operator and the opset it holds from."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Other spellings of the core domain.
_CORE = ("", "ai.onnx")

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """How an operator is computed from ``since`` on, until the next row of its name.

    Attributes:
        rule: Called with a `Call` and the node's inputs; None for one that is left out.
        host: Positions of inputs that must be known when the graph is called: shapes,
            axes, scales. A constant there is not trained.
        state: Positions of inputs that are buffers, not parameters.
        weights: Positions where a constant is trained though it has one element.
        folds: Whether the result of constants is a constant.
    """

    rule: Rule
    since: int
    host: tuple[int, ...]
    state: tuple[int, ...]
    weights: tuple[int, ...]
    folds: bool


_ROWS: dict[tuple[str, str], list[Row]] = {}


def onnx_op(
    *names: str,
    since: int = 1,
    domain: str = "",
    host: tuple[int, ...] = (),
    state: tuple[int, ...] = (),
    weights: tuple[int, ...] = (),
    folds: bool = True,
) -> Callable[[Rule], Rule]:
    """Let the decorated function compute these operators from an opset on."""

    def added(rule: Rule) -> Rule:
        for name in names:
            rows = _ROWS.setdefault((domain, name), [])
            rows.append(Row(rule, since, host, state, weights, folds))
            rows.sort(key=lambda row: row.since)
        return rule

    return added


def core_domain(domain: str) -> str:
    """The domain under the name that rows have."""
    return "" if domain in _CORE else domain


def find_row(domain: str, name: str, opset: int) -> Row | None:
    """The row that holds at an opset, or None."""
    rows = _ROWS.get((core_domain(domain), name), [])
    return next((row for row in reversed(rows) if row.since <= opset), None)


def known_operators() -> list[str]:
    """The names of all operators with a row."""
    return sorted({name if not d else f"{d}.{name}" for d, name in _ROWS})


def nearest(name: str) -> list[str]:
    """The names of operators that are spelled most like it."""
    return difflib.get_close_matches(name, known_operators(), 3, 0.6)
