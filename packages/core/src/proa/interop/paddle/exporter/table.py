"""The mapping table: one row for each operator of Proa that Paddle's can express."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Rule = Callable[..., Any]
_AnyRule = TypeVar("_AnyRule", bound=Rule)

ROWS: dict[str, Rule] = {}


def export_row(*names: str) -> Callable[[_AnyRule], _AnyRule]:
    """Let the decorated function write these operators.

    It is called with a `Call`, the arrays, and the attributes by keyword, and returns
    one `Ref` for each output, or for the first alone if nothing reads the others.
    """

    def added(rule: _AnyRule) -> _AnyRule:
        ROWS.update(dict.fromkeys(names, rule))
        return rule

    return added
