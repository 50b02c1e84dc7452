"""The rewriting of one function's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from proa.jit.convert.early_exits import EarlyExits
from proa.jit.convert.liveness import Liveness
from proa.jit.convert.names import (
    bound,
    captured,
    changed,
    changed_within,
    declared,
    parameters,
    within,
)

#: The name of the runtime in rewritten code.
RUNTIME = "_proa"

#: Called as they are: they look at the function that calls them.
_UNTOUCHED = {
    "__import__", "breakpoint", "dir", "eval", "exec", "globals", "locals", "super",
    "vars",
}  # fmt: skip
#: Their results are Python values whatever they are given.
_PLAIN_CALLS = frozenset(("callable", "hasattr", "isinstance", "issubclass"))

_OPERATORS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
    ast.GtE: "ge", ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_",
    ast.NotIn: "not_in",
}  # fmt: skip


def is_plain(test: ast.expr) -> bool:
    """Whether a test is no tensor, as its form shows."""
    if isinstance(test, ast.Constant):
        return True
    if isinstance(test, ast.BoolOp):
        return all(map(is_plain, test.values))
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and is_plain(test.operand)
    if isinstance(test, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
        return test.func.id in _PLAIN_CALLS
    return False


def worth_converting(function: ast.FunctionDef) -> bool:
    """Whether rewriting it may change what is recorded."""
    kinds = (
        ast.If, ast.While, ast.For, ast.IfExp, ast.BoolOp, ast.Assert, ast.Call, ast.Not
    )  # fmt: skip
    return any(isinstance(node, kinds) for s in function.body for node in ast.walk(s))


def is_convertible(function: ast.FunctionDef) -> bool:
    """Whether it is a function whose body runs when it is called."""
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return not any(isinstance(node, kinds) for node in within(function.body))


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _runtime(name: str, *args: ast.expr, **keywords: Any) -> ast.Call:
    given = [ast.keyword(key, ast.Constant(v)) for key, v in keywords.items()]
    return ast.Call(ast.Attribute(_load(RUNTIME), name, ast.Load()), list(args), given)


def _later(value: ast.expr) -> ast.expr:
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(none, value)


def _tuple(names: Iterable[str]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(name) for name in sorted(names)], ast.Load())


def _statement(call: ast.expr, node: ast.stmt, upto: ast.expr) -> ast.stmt:
    """A call in place of a statement whose first lines go up to an expression."""
    result = ast.copy_location(ast.Expr(call), node)
    is_one_line = upto.end_lineno == node.lineno
    # In one line: Python takes the last for that of a call of an attribute.
    result.end_lineno = node.lineno
    result.end_col_offset = upto.end_col_offset if is_one_line else node.col_offset
    return result


class _Names(ast.NodeTransformer):
    """Private names as their class has them, and `super()` with its arguments."""

    def __init__(self, kind: str, function: ast.FunctionDef) -> None:
        self._kind, self._function = kind.lstrip("_"), function
        self._first = next(iter(parameters(function)), "")

    def _mangled(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__")
        return f"_{self._kind}{name}" if private and self._kind else name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        node.id = self._mangled(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        node.attr = self._mangled(node.attr)
        return self.generic_visit(node)  # type: ignore[return-value]  # an expression

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """What is annotated cannot be shared with the functions made of branches."""
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _left_alone(self, node: Any) -> Any:
        return node

    visit_ClassDef = visit_AsyncFunctionDef = _left_alone

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        """They are declared once, for all functions made of the branches."""
        return ast.copy_location(ast.Pass(), node)

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        if node is self._function:
            self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super"
        if is_super and not node.args and self._first:
            node.args = [_load("__class__"), _load(self._first)]
        return node


class Rewriter(ast.NodeTransformer):
    """Makes functions of the branches and loops of one function."""

    def __init__(self, function: ast.FunctionDef, class_name: str = "") -> None:
        self.function = function
        body = function.body
        plain: set[ast.AST] = {
            n for n in within(body) if isinstance(n, ast.If) and is_plain(n.test)
        }
        self._globals = declared(body, ast.Global)
        self._nonlocals = declared(body, ast.Nonlocal)
        self._always = captured(body) | self._nonlocals
        # What functions within change, whoever calls them.
        own = bound(body) | set(parameters(function)) | self._nonlocals
        self._by_calls = changed_within(body) & own
        _Names(class_name, function).visit(function)
        self._early_exits = EarlyExits()
        function.body = self._early_exits.rewrite(body, plain)
        self._live = Liveness(function.body, self._early_exits.stops)
        self._count = 0
        self._shared: set[str] = set()

    def rewrite(self) -> ast.FunctionDef:
        """The function, rewritten in place."""
        function = self.function
        function.body = self._visited(function.body)
        # Names that only the new functions bind are this function's nevertheless.
        missing = self._shared - set(parameters(function)) - self._nonlocals
        missing -= bound(function.body)
        at = 1 if ast.get_docstring(function, clean=False) is not None else 0
        if missing:
            targets: list[ast.expr] = [
                ast.Name(name, ast.Store()) for name in sorted(missing)
            ]
            never = ast.If(
                ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], []
            )
            function.body.insert(at, ast.copy_location(never, function))
        for kind, names in (
            (ast.Global, self._globals),
            (ast.Nonlocal, self._nonlocals),
        ):
            if names:
                function.body.insert(at, kind(sorted(names)))
        return ast.fix_missing_locations(function)

    def _visited(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        results: list[ast.stmt] = []
        for node in body:
            found = self.visit(node)
            results += found if isinstance(found, list) else [found]
        return results

    def _function(
        self, name: str, at: ast.AST, body: Sequence[ast.stmt], args: Sequence[str] = ()
    ) -> ast.stmt:
        """A function of the statements (not yet visited), which shares all names."""
        names = self._bound(body)
        result = self._visited(body)
        for kind, shared in (
            (ast.Global, names & self._globals),
            (ast.Nonlocal, names - self._globals),
        ):
            if shared:
                result.insert(0, kind(sorted(shared)))
        self._shared |= names - self._globals
        given = [ast.arg(arg) for arg in args]
        arguments = ast.arguments([], given, None, [], [], None, [])
        result = result or [ast.Pass()]
        function = ast.FunctionDef(name, arguments, result, [], None)
        if "type_params" in function._fields:
            vars(function)["type_params"] = []
        return ast.copy_location(function, at)

    def _bound(self, body: Sequence[ast.stmt]) -> set[str]:
        """Names that the statements bind, and that functions which they call may."""
        calls = any(isinstance(node, ast.Call) for node in within(body))
        return bound(body) | (self._by_calls if calls else set())

    def _carried_names(
        self, bodies: Sequence[ast.stmt], live: Iterable[str]
    ) -> ast.Tuple:
        """What the statements leave in names, attributes and containers."""
        names = self._bound(bodies)
        wanted = names & (set(live) | self._always | self._by_calls) - self._globals
        found = set(wanted)
        for path in changed(bodies):
            root = path.partition(".")[0].removesuffix("[]")
            if root not in names or (root in wanted and path != f"{root}[]"):
                found.add(path)
        found -= {f"{path}[]" for path in found}
        return _tuple(found)

    def _next(self) -> int:
        self._count += 1
        return self._count

    # -- statements -------------------------------------------------------------------
    def visit_If(self, node: ast.If) -> Any:
        if is_plain(node.test):
            node.test = self.visit(node.test)
            node.body, node.orelse = map(self._visited, (node.body, node.orelse))
            return node
        k = self._next()
        both = node.body + node.orelse
        names = self._carried_names(both, self._live.after[node])
        known = {ast.literal_eval(name) for name in names.elts}
        own = bound(both) - self._globals - known
        branches = [
            self._function(f"_if_{k}", node, node.body),
            self._function(f"_else_{k}", node, node.orelse),
        ]
        test = self.visit(node.test)
        lenient = {"lenient": True} if node in self._early_exits.lenient else {}
        args = [test, _load(f"_if_{k}"), _load(f"_else_{k}"), names]
        call = _runtime("if_else", *args, *([_tuple(own)] if own else []), **lenient)
        return [*branches, _statement(call, node, node.test)]

    def visit_While(self, node: ast.While) -> Any:
        k = self._next()
        test = _Bounds().visit(node.test)
        test_at: ast.stmt = ast.copy_location(ast.Return(test), node.test)
        both = [test_at, *node.body]
        names = self._carried_names(both, self._live.head[node])
        functions = [
            self._function(f"_test_{k}", node, [test_at]),
            self._function(f"_body_{k}", node, node.body),
        ]
        call = _runtime("while_loop", _load(f"_test_{k}"), _load(f"_body_{k}"), names)
        return [*functions, _statement(call, node, node.test)]

    def visit_For(self, node: ast.For) -> Any:
        k = self._next()
        first = ast.copy_location(
            ast.Assign([node.target], _load(f"_item_{k}")), node.target
        )
        body = [ast.fix_missing_locations(first), *node.body]
        names = self._carried_names(body, self._live.head[node])
        functions = [self._function(f"_body_{k}", node, body, [f"_item_{k}"])]
        args = [self.visit(node.iter), _load(f"_body_{k}"), names]
        stops = self._early_exits.stops.get(node)
        if stops:
            go_on = _runtime("go_on", *map(_load, stops))
            test: ast.stmt = ast.copy_location(ast.Return(go_on), node)
            functions.append(self._function(f"_test_{k}", node, [test]))
            args.append(_load(f"_test_{k}"))
        call = _runtime("for_loop", *args)
        return [*functions, _statement(call, node, node.iter)]

    def visit_Assert(self, node: ast.Assert) -> Any:
        if is_plain(node.test):
            return self.generic_visit(node)
        parts = [_later(self.visit(p)) for p in (node.test, node.msg) if p is not None]
        return _statement(_runtime("assert_", *parts), node, node.test)

    def _left_alone(self, node: ast.AST) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _left_alone
    visit_Lambda = _left_alone

    # -- expressions ------------------------------------------------------------------
    def visit_Call(self, node: ast.Call) -> Any:
        known = isinstance(node.func, ast.Name) and node.func.id in _UNTOUCHED
        is_own = isinstance(node.func, ast.Attribute) and (
            isinstance(node.func.value, ast.Name) and node.func.value.id == RUNTIME
        )
        self.generic_visit(node)
        if not known and not is_own:
            node.func = ast.copy_location(_runtime("call", node.func), node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _binds(node) or is_plain(node):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        parts = [_later(self.visit(value)) for value in node.values]
        return ast.copy_location(_runtime(name, *parts), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        plain = is_plain(node)
        self.generic_visit(node)
        if plain or not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_runtime("not_", node.operand), node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _binds(node) or is_plain(node.test):
            return self.generic_visit(node)
        branches = [_later(self.visit(branch)) for branch in (node.body, node.orelse)]
        call = _runtime("either", self.visit(node.test), *branches)
        return ast.copy_location(call, node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) < 2 or _binds(node):
            return self.generic_visit(node)
        args: list[ast.expr] = [self.visit(node.left)]
        for op, right in zip(node.ops, node.comparators, strict=True):
            args += [ast.Constant(_OPERATORS[type(op)]), _later(self.visit(right))]
        return ast.copy_location(_runtime("chain", *args), node)


class _Bounds(ast.NodeTransformer):
    """Comparisons of a loop's condition, with the run's symbolic dimensions."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if not _binds(node):
            parts = [node.left, *node.comparators]
            sizes: list[ast.expr] = [
                ast.copy_location(_runtime("size", part), part) for part in parts
            ]
            node.left, *node.comparators = sizes
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node


def _binds(node: ast.expr) -> bool:
    return any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))
