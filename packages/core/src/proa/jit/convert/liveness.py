"""Which names are read after a branch or loop: what it has to return.

A name that is not live may have another abstract value in each branch.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from proa.jit.convert.names import bound, reads

Names = frozenset[str]


class Liveness:
    """Finds the names that may be read after each branch and loop of a function.

    Args:
        body: The statements.
        stops: The flags that each `For` node reads after a round.

    Attributes:
        after: For `If`, `While` and `For` nodes, the names read after them.
        head: For loops, the names read after them or by a later round.
    """

    def __init__(
        self, body: Sequence[ast.stmt], stops: Mapping[ast.AST, Sequence[str]]
    ) -> None:
        self.after: dict[ast.AST, Names] = {}
        self.head: dict[ast.AST, Names] = {}
        self._stops = stops
        self._before(body, frozenset())

    def _before(self, body: Sequence[ast.stmt], after: Names) -> Names:
        """Names read at or after the first statement before they are bound."""
        for statement in reversed(body):
            after = self._before_one(statement, after)
        return after

    def _before_one(self, node: ast.stmt, after: Names) -> Names:
        if isinstance(node, ast.If):
            self.after[node] = after
            branches = self._before(node.body, after) | self._before(node.orelse, after)
            return branches | reads([node.test])
        if isinstance(node, (ast.While, ast.For)):
            return self._before_loop(node, after)
        if isinstance(node, ast.With):
            return self._before(node.body, after) | reads(node.items)
        if isinstance(node, (ast.Match, ast.Try)):
            return self._before_parts(node, after)
        if isinstance(node, (ast.Return, ast.Raise)):
            return frozenset(reads([node]))
        return (after - bound([node])) | reads([node])

    def _before_loop(self, node: ast.While | ast.For, after: Names) -> Names:
        after |= self._before(node.orelse, after)
        first = reads([node.test if isinstance(node, ast.While) else node.iter])
        own = bound([node.target]) if isinstance(node, ast.For) else set()
        head = after | frozenset(self._stops.get(node, ()))
        if isinstance(node, ast.While):
            head |= first
        while True:
            more = head | (self._before(node.body, head) - own)
            if more == head:
                break
            head = more
        self.after[node], self.head[node] = after, head
        return head | first

    def _before_parts(self, node: ast.stmt, after: Names) -> Names:
        """Names live before a statement that may be left after a part of it."""
        after |= reads([node])
        for part in ast.walk(node):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(part, name, None)
                if isinstance(block, list) and not isinstance(
                    part, (ast.If, ast.While, ast.For, ast.FunctionDef, ast.ClassDef)
                ):
                    self._before(block, after)
        return after
