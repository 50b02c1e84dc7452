"""Imports of 1.x go, ``import paddle`` comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst
from libcst.helpers import get_full_name_for_node

_Import = TypeVar("_Import", cst.Import, cst.ImportFrom)


def replace_imports(
    module: cst.Module, used: set[str], is_needed: bool, old: Sequence[str]
) -> cst.Module:
    """The module without imports of modules that are gone.

    Args:
        module: The module, its names rewritten.
        used: Names that are used as they were: their imports stay.
        is_needed: Whether the name ``paddle`` is used.
        old: The modules that are gone.
    """
    imports = _Imports(used, tuple(old))
    body: list[cst.BaseStatement] = []
    first: int | None = None
    before: list[cst.EmptyLine] = []
    comments: list[cst.EmptyLine] = []
    for statement in module.body:
        new = statement.visit(imports)
        lines = list(getattr(statement, "leading_lines", ()))
        if isinstance(new, cst.SimpleStatementLine) and not new.body:
            if first is None:
                first, before = len(body), lines
            else:
                comments += [line for line in lines if line.comment is not None]
        elif isinstance(new, cst.BaseStatement):
            body.append(_preceded(new, comments))
            comments = []
    if is_needed and not imports.has_paddle:
        line = cst.ensure_type(
            cst.parse_statement("import paddle\n"), cst.SimpleStatementLine
        )
        place = after_docstring(body) if first is None else first
        body.insert(place, _preceded(line, before))
    elif first is not None and first < len(body):
        before = [line for line in before if line.comment is not None]
        body[first] = _preceded(body[first], before)
    return module.with_changes(body=body)


def _preceded(
    statement: cst.BaseStatement, lines: Sequence[cst.EmptyLine]
) -> cst.BaseStatement:
    """The statement after these comments and blank lines."""
    own = getattr(statement, "leading_lines", None)
    if own is None or not lines:
        return statement
    return statement.with_changes(leading_lines=[*lines, *own])


class _Imports(cst.CSTTransformer):
    """Removes the imports, and finds whether ``import paddle`` is there."""

    def __init__(self, used: set[str], old: tuple[str, ...]) -> None:
        super().__init__()
        self._used, self._old = used, old
        self.has_paddle = False

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.Import | cst.RemovalSentinel:
        names = []
        for alias in updated_node.names:
            full = get_full_name_for_node(alias.name) or ""
            bound = alias.evaluated_alias or full.partition(".")[0]
            self.has_paddle |= full == "paddle" and bound == "paddle"
            is_old = full.startswith(self._old)
            if not is_old or bound in self._used:
                names.append(alias)
                self.has_paddle |= is_old and bound == "paddle"
        return _with_names(updated_node, names)

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        if updated_node.module is None or isinstance(
            updated_node.names, cst.ImportStar
        ):
            return updated_node
        module = get_full_name_for_node(updated_node.module) or ""
        names = []
        for alias in updated_node.names:
            full = f"{module}.{alias.evaluated_name}"
            bound = alias.evaluated_alias or alias.evaluated_name
            if not full.startswith(self._old) or bound in self._used:
                names.append(alias)
        return _with_names(updated_node, names)


def _with_names(
    node: _Import, names: Sequence[cst.ImportAlias]
) -> _Import | cst.RemovalSentinel:
    if not names:
        return cst.RemoveFromParent()
    last = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(names=[*names[:-1], last])


def after_docstring(body: Sequence[cst.CSTNode]) -> int:
    """The place after the docstring and imports from ``__future__``."""
    place = 0
    for statement in body:
        if not isinstance(statement, cst.SimpleStatementLine):
            break
        small = statement.body[0]
        text = isinstance(small, cst.Expr) and isinstance(
            small.value, (cst.SimpleString, cst.ConcatenatedString)
        )
        future = (
            isinstance(small, cst.ImportFrom)
            and small.module is not None
            and get_full_name_for_node(small.module) == "__future__"
        )
        if not (text or future):
            break
        place += 1
    return place


def add_enable_static(module: cst.Module) -> cst.Module:
    """The module with ``paddle.enable_static()`` after its last import, unless it is
    called already."""
    if "enable_static()" in module.code:
        return module
    place = after_docstring(module.body)
    for number, statement in enumerate(module.body):
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body
        ):
            place = number + 1
    line = cst.parse_statement("\npaddle.enable_static()\n")
    return module.with_changes(body=[*module.body[:place], line, *module.body[place:]])
