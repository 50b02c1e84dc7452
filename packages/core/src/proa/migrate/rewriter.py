"""Source code of Paddle 1.x becomes source code of 2.x."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import libcst as cst
from libcst import metadata as md

from proa.errors import InvalidArgumentError
from proa.migrate.arguments import ALWAYS, Arguments, Unreadable, is_none
from proa.migrate.blocks import BLOCKS, Blocks, as_function, leaves_block
from proa.migrate.imports import add_enable_static, replace_imports
from proa.migrate.rules import RULES, ByHand
from proa.migrate.table import Row, lookup, member

#: Names of 1.x that a program of this prefix may have.
OLD = ("paddle.fluid", "paddle.dataset", "paddle.reader")
GUARD = "paddle.fluid.dygraph.guard"
#: Layers that apply an activation.
_LAYERS = {
    "elu": "ELU", "gelu": "GELU", "leaky_relu": "LeakyReLU", "relu": "ReLU",
    "relu6": "ReLU6", "sigmoid": "Sigmoid", "softmax": "Softmax", "tanh": "Tanh",
}  # fmt: skip
#: What only programs of static mode call.
_STATIC = (
    "paddle.static.data", "paddle.static.Executor", "paddle.static.program_guard",
    "paddle.static.default_main_program", "paddle.static.default_startup_program",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What was done, or is left to do, in one place.

    Attributes:
        line: The line of the program as it was.
        kind: "rewritten"; "check": rewritten, but results may differ; "by hand": left
            as it was.
        old: The name that was there.
        new: The name that is there now; empty if it was left or removed.
        text: What to do or to know.
    """

    line: int
    kind: Literal["rewritten", "check", "by hand"]
    old: str
    new: str = ""
    text: str = ""


@dataclass(frozen=True)
class Rewritten:
    """A program and what was found in it, by line."""

    code: str
    findings: tuple[Finding, ...]

    @property
    def by_hand(self) -> tuple[Finding, ...]:
        """What is left to do."""
        return tuple(f for f in self.findings if f.kind == "by hand")


def rewrite(source: str) -> Rewritten:
    """A program for Paddle 1.x as one for 2.x; formatting and comments stay.

    Args:
        source: The program. One for 2.x stays as it is.

    Raises:
        InvalidArgumentError: If it is no Python 3.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise InvalidArgumentError(
            f"[rewrite] expected Python 3, got line {error.raw_line}: {error.message}"
        ) from None
    if not any(old in source for old in ("fluid", "paddle.dataset", "paddle.reader")):
        return Rewritten(source, ())
    wrapper = md.MetadataWrapper(module, unsafe_skip_copy=True)
    names = _Names()
    new = wrapper.visit(names)
    new = replace_imports(new, names.unmigrated, bool(names.news), OLD)
    if names.is_static() and not names.is_dynamic:
        new = add_enable_static(new)
    return Rewritten(new.code, tuple(sorted(names.findings, key=lambda f: f.line)))


class _Names(cst.CSTTransformer):
    """Replaces names, calls and guards; imports stay for `replace_imports`."""

    METADATA_DEPENDENCIES = (md.QualifiedNameProvider, md.PositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        #: First parts of names that were left, which their imports must bind.
        self.unmigrated: set[str] = set()
        self.news: set[str] = set()
        self.is_dynamic = False
        self._inner: set[cst.CSTNode] = set()
        self._blocks = Blocks()
        #: The functions that statements are in, the innermost last.
        self._functions: list[cst.FunctionDef] = []

    def is_static(self) -> bool:
        """Whether the program builds and runs static programs."""
        return any(name in self.news for name in _STATIC)

    # -- names
    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._inner.add(node.value)
        self._inner.add(node.attr)

    def visit_Call(self, node: cst.Call) -> None:
        if self._old_name(node.func) is not None:
            self._inner.add(node.func)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self._inner.add(node.keyword)

    def leave_Name(
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        return self._reference(original_node, updated_node)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        return self._reference(original_node, updated_node)

    def _old_name(self, node: cst.CSTNode) -> str | None:
        """The name of 1.x that an imported name stands for, in full."""
        if not _first(node):  # of what a call returned, say
            return None
        for found in self.get_metadata(md.QualifiedNameProvider, node, ()):
            imported = found.source is md.QualifiedNameSource.IMPORT
            if imported and found.name.startswith(OLD):
                return str(found.name)
        return None

    def _reference(
        self, node: cst.Name | cst.Attribute, updated: cst.Name | cst.Attribute
    ) -> cst.BaseExpression:
        """A name that is not called: a base class, an argument, a module."""
        name = None if node in self._inner else self._old_name(node)
        if name is None:
            return updated
        row = lookup(name)
        of_class = member(name) if row is None else None
        if of_class is not None:
            row, new = of_class
            self._done(node, row, new, "")
            return _dotted(new)
        if row is None or not row.new:
            self._left(node, name, row)
            return updated
        self._done(node, row, row.new, "" if row.rule else row.note)
        return _dotted(row.new)

    # -- calls
    def leave_Call(
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.BaseExpression:
        name = self._old_name(original_node.func)
        if name is None:
            return updated_node
        row = lookup(name)
        of_class = member(name) if row is None else None
        if of_class is not None:  # its arguments are those of 1.x
            row, new = of_class
            self._done(original_node.func, row, new, "")
            return updated_node.with_changes(func=_dotted(new))
        if row is None or not (row.new or row.rule in RULES):
            self._left(original_node.func, name, row)
            return updated_node
        if row.takes_old_arguments:  # takes the arguments of 1.x
            note = row.note.removeprefix(ALWAYS)
            self._done(original_node.func, row, row.new, note)
            return updated_node.with_changes(func=_dotted(row.new))
        try:
            return self._call(original_node, updated_node, row)
        except Unreadable:
            text = "arguments by * or **: " + ", ".join(
                f"{old} is {new}" for old, new in row.arguments if old != new
            )
        except ByHand as error:
            text = str(error)
        self._by_hand(original_node.func, row.old, text)
        return updated_node

    def _call(self, node: cst.Call, updated: cst.Call, row: Row) -> cst.BaseExpression:
        arguments = Arguments(row, updated.args)
        new = RULES[row.rule](row, arguments) if row.rule in RULES else row.new
        notes = [f"{name} is gone" for name in arguments.dropped]
        args = arguments.result(row.new_order(new))
        call = updated.with_changes(func=_dotted(new), args=args)
        result: cst.BaseExpression = call
        given = arguments.activation
        if given is not None and not is_none(given):
            name = next((n for n, v in arguments.values.items() if v is given), "act")
            text = arguments.text(name)
            if text is None:
                raise ByHand("act: apply the activation to the result")
            result = _activated(call, text, row.is_class)
            self.news.add("paddle.nn")
            if row.is_class:
                notes.append("names of parameters have a 0. before them")
        if arguments.output is not None and not is_none(arguments.output):
            place = cst.Arg(arguments.output)
            result = cst.Call(_dotted("paddle.assign"), [cst.Arg(result), place])
        if arguments.note_applies():
            notes.append(row.note.removeprefix(ALWAYS))
        self._done(node.func, row, new, "; ".join(notes))
        return result

    def visit_Subscript(self, node: cst.Subscript) -> None:
        """``loss.numpy()[0]``: a full reduction has no axis."""
        code = cst.Module([]).code_for_node(node)
        if code.endswith(".numpy()[0]"):
            text = "of a tensor of one element without an axis: item()"
            self._found(node, "check", "Variable.numpy()[0]", "", text)

    # -- blocks and guards
    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._functions.append(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._functions.pop()
        return updated_node

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._note_block(target.target, node.value)

    def _note_block(self, target: cst.CSTNode, value: cst.BaseExpression) -> None:
        """Remember an object whose methods begin blocks."""
        name = self._old_name(value.func) if isinstance(value, cst.Call) else None
        row = None if name is None else lookup(name)
        if row is not None and row.old in BLOCKS:
            self._blocks.assigned(target, row.old)

    def leave_With(
        self, original_node: cst.With, updated_node: cst.With
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        if self._blocks.call_of(original_node) is not None:
            return self._block(original_node, updated_node)
        remaining = []
        for old, item in zip(original_node.items, updated_node.items, strict=True):
            guard = isinstance(old.item, cst.Call) and self._is_guard(old.item.func)
            if not guard:
                remaining.append(item)
        if len(remaining) == len(updated_node.items):
            return updated_node
        if remaining:
            remaining[-1] = remaining[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(items=remaining)
        return cst.FlattenSentinel(_unindented(updated_node))

    def _block(self, node: cst.With, updated: cst.With) -> cst.BaseStatement:
        call = node.items[0].item
        old = cst.Module([]).code_for_node(call)
        if leaves_block(node):
            text = "a function that is decorated by it, without return and yield"
            self._found(call, "by hand", f"with {old}", "", text)
            return updated
        self._found(call, "rewritten", f"with {old}", f"@{old}", "")
        around = self._functions[-1] if self._functions else None
        return as_function(node, updated, around)

    def _is_guard(self, func: cst.BaseExpression) -> bool:
        name = self._old_name(func)
        row = None if name is None else lookup(name)
        return row is not None and row.old == GUARD

    def visit_With(self, node: cst.With) -> None:
        for each in node.items:
            if each.asname is not None:
                self._note_block(each.asname.name, each.item)
            if isinstance(each.item, cst.Call) and self._is_guard(each.item.func):
                self._inner.add(each.item.func)
                self.is_dynamic = True
                self._found(each.item, "rewritten", GUARD, "", "removed")

    # -- findings
    def _found(
        self, node: cst.CSTNode, kind: Literal["rewritten", "check", "by hand"],
        old: str, new: str, text: str,
    ) -> None:  # fmt: skip
        place = self.get_metadata(md.PositionProvider, node)
        self.findings.append(Finding(place.start.line, kind, old, new, text))

    def _done(self, node: cst.CSTNode, row: Row, new: str, text: str) -> None:
        self.news.add(new)
        dynamic = row.old.startswith("paddle.fluid.dygraph")
        self.is_dynamic = self.is_dynamic or dynamic or new == "paddle.disable_static"
        self._found(node, "check" if text else "rewritten", row.old, new, text)

    def _by_hand(self, node: cst.CSTNode, old: str, text: str) -> None:
        self.unmigrated.add(_first(node))
        self._found(node, "by hand", old, "", text)

    def _left(self, node: cst.CSTNode, name: str, row: Row | None) -> None:
        if row is None:
            self._by_hand(node, name, "the table has no such name")
        elif row.old != GUARD:
            self._by_hand(node, name, row.note or "no name of 2.x is the same")


def _first(node: cst.CSTNode) -> str:
    """``fluid`` of ``fluid.layers.fc``."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _dotted(name: str) -> cst.BaseExpression:
    return cst.parse_expression(name)


def _activated(call: cst.Call, activation: str, is_class: bool) -> cst.Call:
    """The activation of a call's result; of a Layer, both as one Layer."""
    if not is_class:
        function = _dotted(f"paddle.nn.functional.{activation}")
        return cst.Call(function, [cst.Arg(call)])
    if activation not in _LAYERS:
        raise ByHand(f"act: paddle.nn.Sequential of this layer and {activation}")
    layer = cst.Call(_dotted(f"paddle.nn.{_LAYERS[activation]}"))
    return cst.Call(_dotted("paddle.nn.Sequential"), [cst.Arg(call), cst.Arg(layer)])


def _unindented(node: cst.With) -> Iterable[cst.BaseStatement]:
    """The statements of the body, of which the first has the comments before `with`."""
    body: list[cst.BaseStatement] = []
    if isinstance(node.body, cst.SimpleStatementSuite):  # with guard(): statement
        body = [cst.SimpleStatementLine(node.body.body)]
    elif isinstance(node.body, cst.IndentedBlock):
        body = list(node.body.body)
    first = body[0]
    lines = [*node.leading_lines, *getattr(first, "leading_lines", ())]
    body[0] = first.with_changes(leading_lines=lines)
    return body
