"""``with`` blocks of loops and branches of 1.x become functions.

    with loop.block():              @loop.block()
        total = total + x      ->   def _body():
                                        nonlocal total
                                        total = total + x

What the block binds is bound around it, as before, by ``global`` or ``nonlocal``.
"""

from __future__ import annotations

import libcst as cst

#: Classes whose methods begin blocks, and these methods.
BLOCKS = {
    "paddle.fluid.layers.DynamicRNN": ("block",),
    "paddle.fluid.layers.IfElse": ("true_block", "false_block"),
    "paddle.fluid.layers.StaticRNN": ("step",),
    "paddle.fluid.layers.Switch": ("case", "default"),
    "paddle.fluid.layers.While": ("block",),
}
_BODY = "_body"


class Blocks:
    """The objects of a program whose methods begin blocks, by their names."""

    def __init__(self) -> None:
        self._methods: dict[str, tuple[str, ...]] = {}

    def assigned(self, target: cst.CSTNode, old: str) -> None:
        """Note that an expression has an object of this class of 1.x."""
        self._methods[cst.Module([]).code_for_node(target)] = BLOCKS[old]

    def call_of(self, node: cst.With) -> cst.Call | None:
        """The call that begins a block, if the statement is one."""
        if len(node.items) != 1:
            return None
        call = node.items[0].item
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)):
            return None
        held = cst.Module([]).code_for_node(call.func.value)
        known = call.func.attr.value in self._methods.get(held, ())
        return call if known else None


def leaves_block(node: cst.With) -> bool:
    """Whether a statement of the block leaves the function around it."""
    found = _Bound()
    node.body.visit(found)
    return found.leaves


def as_function(
    original: cst.With,
    updated: cst.With,
    around: cst.FunctionDef | None,
) -> cst.FunctionDef:
    """The function of a block.

    Args:
        original: The statement as it was.
        updated: The statement, its parts rewritten.
        around: The function that it is in, as it was; None for none.
    """
    names = _bound(original.body)
    if around is not None:
        outside = _Bound(but=original)
        around.params.visit(outside)
        around.body.visit(outside)
        names = [name for name in names if name in outside.names]
    body = updated.body
    if isinstance(body, cst.SimpleStatementSuite):
        body = cst.IndentedBlock([cst.SimpleStatementLine(body.body)])
    if names and isinstance(body, cst.IndentedBlock):
        items = [cst.NameItem(cst.Name(name)) for name in names]
        kind = cst.Global if around is None else cst.Nonlocal
        declared = cst.SimpleStatementLine([kind(items)])
        body = body.with_changes(body=[declared, *body.body])
    return cst.FunctionDef(
        cst.Name(_BODY), cst.Parameters(), body,
        decorators=[cst.Decorator(updated.items[0].item)],
        leading_lines=updated.leading_lines, lines_after_decorators=(),
    )  # fmt: skip


def _bound(node: cst.CSTNode) -> list[str]:
    found = _Bound()
    node.visit(found)
    return sorted(found.names)


class _Bound(cst.CSTVisitor):
    """The names that statements bind in their own scope.

    Args:
        but: A statement that is left out.
    """

    def __init__(self, but: cst.CSTNode | None = None) -> None:
        super().__init__()
        self._but = but
        self.names: set[str] = set()
        self.leaves = False

    def _add(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Name):
            self.names.add(target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._add(element.value)

    def visit_With(self, node: cst.With) -> bool:
        return node is not self._but

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._add(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._add(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._add(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._add(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._add(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._add(node.name)

    def visit_Param(self, node: cst.Param) -> None:
        self._add(node.name)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.names.add(node.name.value)
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.names.add(node.name.value)
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> bool:
        return False

    def visit_Return(self, node: cst.Return) -> None:
        self.leaves = True

    def visit_Yield(self, node: cst.Yield) -> None:
        self.leaves = True
