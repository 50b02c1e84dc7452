"""The syntax tree of a function, and a function of a syntax tree."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
from types import CodeType
from typing import Any

_FUTURES = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
)


@functools.lru_cache(maxsize=16)
def _functions(text: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line that each begins in."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            found[min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
    return found


def tree_of(code: CodeType) -> ast.FunctionDef | None:
    """A tree of its own of the function, or None if its source is not at hand.

    Lines and columns are those of the file.
    """
    text = "".join(linecache.getlines(code.co_filename))
    try:
        found = _functions(text).get(code.co_firstlineno)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if found is None or found.name != code.co_name:
        return None
    names = [*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs]
    for arg, name in zip(names, code.co_varnames, strict=False):
        if arg.arg != name and not arg.arg.startswith("__"):
            return None  # the file has changed
    return copy.deepcopy(found)


def compiled(tree: ast.FunctionDef, code: CodeType, runtime: str) -> CodeType:
    """The code of a rewritten function, whose free variables and `runtime` are cells.

    Args:
        tree: The function.
        code: What it was rewritten from.
        runtime: Another free variable.
    """
    tree.decorator_list, tree.returns = [], None
    tree.name = "_proa_function"  # the function may call what has its name
    a = tree.args
    for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
        if arg is not None:
            arg.annotation = None
    # The values are those of the function, not of the tree.
    a.defaults = [ast.Constant(None) for _ in a.defaults]
    a.kw_defaults = [d and ast.Constant(None) for d in a.kw_defaults]
    free = [ast.arg(name) for name in (*code.co_freevars, runtime)]
    around = ast.FunctionDef(
        "around", ast.arguments([], free, None, [], [], None, []), [tree], [], None
    )
    for each in (around, tree):
        if "type_params" in each._fields:
            vars(each)["type_params"] = []
    ast.copy_location(around, tree)
    module = ast.fix_missing_locations(ast.Module([around], []))
    flags = code.co_flags & _FUTURES
    outer = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    (inner,) = _codes(outer)
    (result,) = _codes(inner)
    names: Any = {"co_name": code.co_name}
    if hasattr(code, "co_qualname"):
        names["co_qualname"] = code.co_qualname
    return result.replace(**names)


def _codes(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]
