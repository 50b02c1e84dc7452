"""Traces gradient rules and composites: Python functions over ops, run once.

A rule gets a `Builder` as ``g``. Each ``g.op(...)`` checks the call against the op's
row and returns a `Node` of the DAG; equal calls give one node. Attributes are `Expr`,
C++ text with a little arithmetic. Numbers may be given where arrays are expected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row


class TraceError(Exception):
    """A rule that does not fit the rows."""


@dataclass(frozen=True)
class Expr:
    """An attribute expression in C++."""

    text: str

    def __invert__(self) -> Expr:
        return Expr(f"int64_t{{!{self.text}}}")

    def __neg__(self) -> Expr:
        return Expr(f"-({self.text})")

    def __mul__(self, other: Any) -> Expr:
        return Expr(f"({self.text} * {_text(other)})")

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Expr:
        return Expr(f"({self.text} + {_text(other)})")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Expr:
        return Expr(f"({self.text} - {_text(other)})")

    def __bool__(self) -> bool:
        raise TraceError(
            f"a rule must not branch on the attribute {self.text}: "
            "call an op that takes it"
        )


def _text(value: Any) -> str:
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, bool):
        return str(int(value))
    return repr(value)


@dataclass(eq=False)
class Node:
    """A value of the trace: an input of the rule, or one op's call."""

    kind: str  # leaf, call, scalar, list (variadic leaf), helper
    text: str = ""  # C++ of a leaf
    row: Row | None = None
    args: list[Any] = field(default_factory=list)
    attrs: list[str] = field(default_factory=list)
    like: Node | None = None
    shape_only_use: bool = True  # a leaf used only where shape matters
    output: int = 0  # for calls of rows with several outputs
    of: Node | None = None

    def __iter__(self) -> Any:
        if self.row is None or len(self.row.outputs) < 2:
            raise TraceError("only a call with several outputs can be unpacked")
        return iter(
            [Node("output", of=self, output=i) for i in range(len(self.row.outputs))]
        )


class Builder:
    """``g``: an attribute for every row, and the few helpers."""

    def __init__(self, rows: dict[str, Row]) -> None:
        self._rows = rows
        self._calls: dict[tuple[Any, ...], Node] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._rows:
            raise TraceError(f"a rule called g.{name}, which is no row")
        return lambda *arrays, **attrs: self._call(self._rows[name], arrays, attrs)

    def inverse_permutation(self, perm: Expr) -> Expr:
        """C++ helper on an ints attribute."""
        return Expr(f"inverse_permutation({perm.text})")

    def split_like(self, dy: Node, xs: Node, *, axis: Expr) -> Node:
        """Gradient of concat."""
        return Node("helper", text="split_like", args=[dy, xs], attrs=[_text(axis)])

    def unstack_like(self, dy: Node, xs: Node, *, axis: Expr) -> Node:
        """Gradient of stack."""
        return Node("helper", text="unstack_like", args=[dy, xs], attrs=[_text(axis)])

    def _call(self, row: Row, arrays: tuple[Any, ...], attrs: dict[str, Any]) -> Node:
        if len(arrays) > len(row.arrays) or (row.arrays and row.arrays[0].variadic):
            raise TraceError(
                f"g.{row.name} takes {len(row.arrays)} arrays, got {len(arrays)}"
            )
        args: list[Any] = []
        for i, spec in enumerate(row.arrays):
            value = arrays[i] if i < len(arrays) else None
            if value is None and not spec.optional:
                raise TraceError(f"g.{row.name} needs {spec.name}")
            if isinstance(value, (int, float, Expr)):
                value = Node("scalar", text=_number(value))
            if isinstance(value, Node) and not spec.shape_only:
                value.shape_only_use = False
            args.append(value)
        _tie_scalars(row, args)
        unknown = set(attrs) - {a.name for a in row.attributes}
        if unknown:
            raise TraceError(f"g.{row.name} has no attribute {unknown}")
        texts = [_attribute(row, a, attrs) for a in row.attributes]
        key = (row.name, *map(_identity, args), *texts)
        node = Node("call", row=row, args=args, attrs=texts)
        return self._calls.setdefault(key, node)


def _identity(arg: Node | None) -> Any:
    """Equal for arguments that are the same value."""
    if arg is not None and arg.kind == "scalar":
        return (arg.text, _identity(arg.like))
    if arg is not None and arg.kind == "output":
        return (_identity(arg.of), arg.output)
    return id(arg)


def _number(value: Any) -> str:
    return value.text if isinstance(value, Expr) else repr(float(value))


def _tie_scalars(row: Row, args: list[Any]) -> None:
    """A number takes the dtype of another array, but not of a mask."""
    tensors = [
        a
        for a, spec in zip(args, row.arrays, strict=True)
        if isinstance(a, Node) and a.kind != "scalar" and not spec.mask
    ]
    for a in args:
        if isinstance(a, Node) and a.kind == "scalar":
            if not tensors:
                raise TraceError(f"g.{row.name} needs an array next to the number")
            a.like = tensors[0]


def _attribute(row: Row, spec: Attribute, given: dict[str, Any]) -> str:
    if spec.name not in given and spec.required:
        raise TraceError(f"g.{row.name} needs the attribute {spec.name}")
    value = given.get(spec.name, spec.default)
    if isinstance(value, Expr):
        return value.text
    if spec.type == "ints":
        return f"Ints{{{len(value)}, {{{', '.join(map(_text, value))}}}}}"
    if spec.type == "choice":
        return str(spec.choices.index(value))
    if spec.type == "scalar":
        return f"Scalar{{1, {{{int(value)}}}}}"
    return repr(float(value)) if spec.type == "float" else str(int(value))


@dataclass
class Trace:
    """A traced rule: what it reads and, for each array (or output), what it gives."""

    leaves: dict[str, Node]  # by parameter name
    roots: list[Node | None]


def trace(function: Callable[..., Any], rows: dict[str, Row], row: Row) -> Trace:
    """Run a rule or composite of `row` on symbols."""
    leaves: dict[str, Node] = {}
    keywords: dict[str, Expr] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "g" or parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            row.attribute(name)
            keywords[name] = Expr(f"a.{name}")
        else:
            leaves[name] = Node("leaf", text=name)
    result = function(Builder(rows), *leaves.values(), **keywords)
    several = isinstance(result, Node) and result.row and len(result.row.outputs) > 1
    roots = list(result) if isinstance(result, tuple) or several else [result]
    for root in roots:
        if isinstance(root, Node):
            root.shape_only_use = False
    return Trace(leaves, roots)


def operands(node: Node) -> list[Node]:
    """The nodes that must be there before `node`."""
    if node.kind == "output" and node.of is not None:
        return [node.of]
    found = [a for a in node.args if isinstance(a, Node)]
    return found + ([node.like] if node.like is not None else [])


def in_order(roots: list[Node | None]) -> list[Node]:
    """Every node that the roots need, operands first."""
    seen: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        for operand in operands(node):
            visit(operand)
        seen[id(node)] = node

    for root in roots:
        if root is not None:
            visit(root)
    return list(seen.values())
