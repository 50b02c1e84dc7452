"""Early returns, `break` and `continue` as flags, so that blocks end where they end.

    while test:              broke = False
        if a:                while go_on(broke) and test:
            break     ->         if a:
        x = f(x)                     broke = True
                                 else:
                                     x = f(x)

What follows a branch that ends early moves to the other; only where neither branch
always ends does a flag guard the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from proa.jit.convert.names import bound, reads, within

#: What the function returns, and whether it has.
RESULT, RETURNED = "_result", "_returned"

_FLAGS = (RETURNED, "_broke_", "_continued_")

_LOOPS = (ast.While, ast.For)


@dataclass
class _Around:
    """What surrounds a block: the flags of its loop."""

    broke: str = ""
    continued: str = ""


@dataclass
class EarlyExits:
    """Rewrites the statements of one function.

    Attributes:
        stops: The flags that end `For` nodes.
        lenient: `If` nodes in one branch of which the rest of a block does not run:
            that branch need not bind what the other does.
    """

    stops: dict[ast.AST, list[str]] = field(default_factory=dict)
    lenient: set[ast.AST] = field(default_factory=set)
    _count: int = 0
    _lowers_returns: bool = False

    def rewrite(self, body: list[ast.stmt], is_plain: set[ast.AST]) -> list[ast.stmt]:
        """The function's body without early exits.

        Args:
            body: Is changed.
            is_plain: `If` nodes that stay as they are.
        """
        self._lowers_returns = _has_early_return(body, is_plain)
        if not self._lowers_returns:
            return self._without_unread(self._block(body, _Around()))
        if not _ends(body):
            body = [*body, _like(body[-1], ast.Return(ast.Constant(None)))]
        first, last = body[0], body[-1]
        results = [
            _like(first, _set(RETURNED, False)),
            *self._block(body, _Around()),
            _like(last, ast.Return(_runtime("returned", _read(RESULT)))),
        ]
        return self._without_unread(results)

    def _without_unread(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements but for what sets flags that nothing reads."""
        read = reads(body).union(*self.stops.values())
        flags = {n for n in bound(body) if n.startswith(_FLAGS)} - read
        statements = [_WithoutFlags(flags).visit(node) for node in body]
        return [node for node in statements if node is not None]

    # -- blocks -----------------------------------------------------------------------
    def _block(self, body: Sequence[ast.stmt], around: _Around) -> list[ast.stmt]:
        results: list[ast.stmt] = []
        for k, node in enumerate(body):
            rest = list(body[k + 1 :])
            kinds = self._early_exits(node)
            if not kinds:
                results += self._inner(node, around)
            elif isinstance(node, (ast.Return, ast.Break, ast.Continue)):
                return results + self._flag(node, around)
            else:
                if isinstance(node, ast.If):
                    rest = self._move(node, rest)
                results += self._inner(node, around)
                flags = self._flags(kinds, around)
                if rest:
                    results.append(
                        self._guard(flags, self._block(rest, around), rest[0])
                    )
                return results
        return results

    def _move(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """Move what follows a branch to the branch that continues, if one does not."""
        self.lenient.add(node)
        if _ends(node.body):
            node.orelse += rest
            return []
        if _ends(node.orelse):
            node.body += rest
            return []
        return rest

    def _inner(self, node: ast.stmt, around: _Around) -> list[ast.stmt]:
        """The statement with its blocks rewritten."""
        if isinstance(node, _LOOPS):
            return self._loop(node, around)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [node]
        ahead = self._flags(self._early_exits(node, "body"), around)
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(part, name, None)
                if not isinstance(block, list) or not block:
                    continue
                result = self._block(block, around) or [_like(block[0], ast.Pass())]
                if name == "orelse" and isinstance(node, ast.Try) and ahead:
                    result = [self._guard(ahead, result, block[0])]
                setattr(part, name, result)
        return [node]

    def _loop(self, node: ast.While | ast.For, around: _Around) -> list[ast.stmt]:
        kinds = {k for s in node.body for k in self._early_exits(s)}
        self._count += 1
        own = _Around(f"_broke_{self._count}", f"_continued_{self._count}")
        first = node.body[0]
        node.body = self._block(node.body, own)
        results: list[ast.stmt] = []
        if "continue" in kinds:
            node.body.insert(0, _like(first, _set(own.continued, False)))
        if "break" in kinds:
            results.append(_like(node, _set(own.broke, False)))
        flags = self._flags(kinds - {"continue"}, own)
        if flags and isinstance(node, ast.While):
            test = ast.BoolOp(ast.And(), [_go_on(flags), node.test])
            node.test = ast.copy_location(test, node.test)
        elif flags:
            self.stops[node] = flags
        results.append(node)
        orelse, node.orelse = node.orelse, []
        if orelse:
            after = self._block(orelse, around)
            results += [self._guard(flags, after, orelse[0])] if flags else after
        return results

    # -- flags ------------------------------------------------------------------------
    def _early_exits(self, node: ast.stmt, part: str = "") -> set[str]:
        """The kinds of early exits that leave a statement."""
        found: set[str] = set()
        if isinstance(node, ast.Return):
            return {"return"} if self._lowers_returns else found
        if isinstance(node, ast.Break):
            return {"break"}
        if isinstance(node, ast.Continue):
            return {"continue"}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return found
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else []:
                inner: list[ast.AST] = [child]
                if isinstance(child, (ast.ExceptHandler, ast.match_case)):
                    inner = list(child.body)
                for each in inner:
                    if isinstance(each, ast.stmt) and part in ("", name):
                        kinds = self._early_exits(each)
                        is_own = isinstance(node, _LOOPS) and name == "body"
                        found |= kinds & {"return"} if is_own else kinds
        return found

    def _flag(self, node: ast.stmt, around: _Around) -> list[ast.stmt]:
        if isinstance(node, ast.Return):
            value = node.value or ast.Constant(None)
            assign = ast.Assign([ast.Name(RESULT, ast.Store())], value)
            return [_like(node, assign), _like(node, _set(RETURNED, True))]
        broke = isinstance(node, ast.Break)
        return [_like(node, _set(around.broke if broke else around.continued, True))]

    def _flags(self, kinds: set[str], around: _Around) -> list[str]:
        flags = [around.broke] if "break" in kinds else []
        flags += [around.continued] if "continue" in kinds else []
        if "return" in kinds:
            flags.append(RETURNED)
        return flags

    def _guard(self, flags: list[str], body: list[ast.stmt], at: ast.stmt) -> ast.stmt:
        node = ast.If(_go_on(flags), body, [])
        self.lenient.add(node)
        return _like(at, node)


class _WithoutFlags(ast.NodeTransformer):
    """Takes out what sets flags of these names."""

    def __init__(self, flags: set[str]) -> None:
        self._flags = flags

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        first = node.targets[0]
        gone = isinstance(first, ast.Name) and first.id in self._flags
        return None if gone else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if getattr(node, "body", None) == [] and isinstance(node, ast.stmt):
            node.body = [_like(node, ast.Pass())]  # type: ignore[attr-defined]
        return node


def _has_early_return(body: Sequence[ast.stmt], plain: set[ast.AST]) -> bool:
    """Whether a `return` is in a loop or in a branch that will be rewritten."""
    for node in within(body):
        is_branch = isinstance(node, ast.If) and node not in plain
        if (is_branch or isinstance(node, _LOOPS)) and any(
            isinstance(part, ast.Return) for part in within([node])
        ):
            return True
    return False


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether the end of the block is never reached."""
    for node in body:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(node, ast.If) and _ends(node.body) and _ends(node.orelse):
            return True
    return False


def _like(node: ast.stmt, result: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(result, node))


def _read(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _set(name: str, value: bool) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))


def _runtime(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(_read("_proa"), name, ast.Load()), list(args), [])


def _go_on(flags: Sequence[str]) -> ast.expr:
    return _runtime("go_on", *map(_read, flags))
