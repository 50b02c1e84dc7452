"""Which names statements bind, change and read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

#: Methods of lists, dictionaries and sets that change them.
_CHANGING = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem",
    "remove", "reverse", "setdefault", "sort", "update",
}  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Nodes = Iterable[ast.AST]


def within(nodes: Nodes) -> Iterator[ast.AST]:
    """The nodes and all below, but for what is inside of functions and classes."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        left += ast.iter_child_nodes(node)


def _of_comprehensions(nodes: Nodes) -> set[int]:
    """The names (by id of their nodes) that comprehensions keep to themselves."""
    return {
        id(name)
        for node in within(nodes)
        if isinstance(node, _COMPREHENSIONS)
        for part in node.generators
        for name in ast.walk(part.target)
    }


def bound(nodes: Nodes) -> set[str]:
    """Names that the statements bind or delete in the function around them."""
    nodes = list(nodes)
    own = _of_comprehensions(nodes)
    found: set[str] = set()
    for node in within(nodes):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in own:
                found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found.add(alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            found |= {node.name} if node.name else set()
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found


def path_of(node: ast.AST) -> str | None:
    """``a.b.c`` of such an expression, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _container(node: ast.expr) -> ast.expr:
    """``x`` of ``x[i][j]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def changed(nodes: Nodes) -> set[str]:
    """What the statements change but do not bind.

    ``self.x`` if that attribute is assigned, ``x[]`` if contents of x are.
    """
    found: set[str] = set()
    for node in within(nodes):
        path = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            path = path_of(node)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            of = path_of(_container(node.value))
            path = of and f"{of}[]"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = path_of(_container(node.func.value))
            path = of and f"{of}[]" if node.func.attr in _CHANGING else None
        if path:
            found.add(path)
    return found


def reads(nodes: Nodes) -> set[str]:
    """Names read, in functions within, too."""
    found: set[str] = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store):
                found.add(part.id)
            elif isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
                found.add(part.target.id)
    return found


def captured(nodes: Nodes) -> set[str]:
    """Names that functions, classes and lambdas among these may read at any time."""
    found: set[str] = set()
    for node in within(nodes):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.GeneratorExp)):
            found |= reads([node])
    return found


def changed_within(nodes: Nodes) -> set[str]:
    """Names that functions among these bind in a function around them."""
    return {
        name
        for node in within(nodes)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for part in ast.walk(node)
        if isinstance(part, ast.Nonlocal)
        for name in part.names
    }


def declared(nodes: Nodes, kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """Names that the statements declare global, or nonlocal."""
    return {n for node in within(nodes) if isinstance(node, kind) for n in node.names}


def parameters(function: ast.FunctionDef) -> list[str]:
    """Names of its parameters, in order."""
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs]
    return [p.arg for p in (*every, a.vararg, a.kwarg) if p is not None]
