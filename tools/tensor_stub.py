"""Write the stub of those methods of `Tensor` that are Python functions.

    python tools/tensor_stub.py [--check]

They are attached by `proa.tensor.methods`, so that no class statement has them; the
stub, `packages/core/src/proa/_core/python_methods.pyi`, takes their signatures and
docstrings from the functions. With --check nothing is written, and it exits with 1 if
the file is not what would be written.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import inspect
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from types import FunctionType

import proa

PATH = (
    Path(__file__).resolve().parent.parent
    / "packages/core/src/proa/_core/python_methods.pyi"
)
_DOC = "Methods of `Tensor` that are Python functions; see tools/tensor_stub.py."


def methods() -> dict[str, FunctionType]:
    """The functions by the names of the methods that they are.

    Python's protocols are declared in the stub of `Tensor` itself.
    """
    found = {}
    for name, value in sorted(vars(proa.Tensor).items()):
        function = inspect.unwrap(value) if callable(value) else value
        if isinstance(function, FunctionType) and not name.startswith("__"):
            found[name] = function
    return found


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _homes(function: FunctionType) -> dict[str, str]:
    """Where the module of a function imports each name from, or defines it."""
    module = function.__module__
    homes = dict.fromkeys(vars(importlib.import_module(module)), module)
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                homes[alias.asname or alias.name] = node.module
    return homes


def _overloads(function: FunctionType) -> list[ast.FunctionDef]:
    """The statements that declare what it returns for which arguments, if there are."""
    return [
        node
        for node in _tree(function.__module__).body
        if isinstance(node, ast.FunctionDef)
        and node.name == function.__name__
        and any(ast.unparse(each) == "overload" for each in node.decorator_list)
    ]


def _annotations(function: FunctionType) -> list[str]:
    """Those of its parameters and results, of all overloads if it has any."""
    found = []
    for node in _overloads(function):
        given = ast.walk(node.args)
        kinds = [each.annotation for each in given if isinstance(each, ast.arg)]
        found += [ast.unparse(kind) for kind in (*kinds, node.returns) if kind]
    return found or list(function.__annotations__.values())


def _names(annotation: str) -> set[str]:
    found = ast.walk(ast.parse(annotation, mode="eval"))
    named = {node.id for node in found if isinstance(node, ast.Name)}
    return {name for name in named if not hasattr(builtins, name)}


def _default(value: object) -> str:
    plain = isinstance(value, (type(None), bool, int, float, str, tuple))
    return repr(value) if plain else "..."


def _parameter(p: inspect.Parameter, first: bool) -> str:
    if first:  # the object, by the name that it has at run time
        return p.name
    star = "*" if p.kind is p.VAR_POSITIONAL else ""
    star = "**" if p.kind is p.VAR_KEYWORD else star
    default = "" if p.default is p.empty else f" = {_default(p.default)}"
    return f"{star}{p.name}: {p.annotation}{default}"


def _documented(function: FunctionType) -> str:
    """The body of a stub: the docstring, if there is one."""
    doc = inspect.getdoc(function)
    if not doc:
        return "    ...\n"
    end = "\n" if "\n" in doc else ""
    quoted = doc.replace("\\", "\\\\")
    return textwrap.indent(f'"""{quoted}{end}"""\n', "    ")


def _overload(name: str, node: ast.FunctionDef, body: str) -> str:
    """One overload as it is declared; its first parameter is the object."""
    node.args.args[0].annotation = None
    assert node.returns is not None
    head = f"def {name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
    return f"@overload\n{head}:\n{body}"


def method(name: str, function: FunctionType) -> str:
    """The stub of one method."""
    doc = _documented(function)
    declared = _overloads(function)
    if declared:
        bodies = [doc, *["    ...\n"] * (len(declared) - 1)]
        return "\n".join(
            _overload(name, node, body)
            for node, body in zip(declared, bodies, strict=True)
        )
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    parameters = [_parameter(p, i == 0) for i, p in enumerate(given)]
    by_place = [i for i, p in enumerate(given) if p.kind is p.POSITIONAL_ONLY]
    if by_place:
        parameters.insert(by_place[-1] + 1, "/")
    by_keyword = [i for i, p in enumerate(given) if p.kind is p.KEYWORD_ONLY]
    if by_keyword and not any(p.kind is p.VAR_POSITIONAL for p in given):
        parameters.insert(by_keyword[0] + bool(by_place), "*")
    lines = "".join(f"    {each},\n" for each in parameters)
    return f"def {name}(\n{lines}) -> {signature.return_annotation}:\n{doc}"


def stub() -> str:
    """The text of the file."""
    imports: dict[str, set[str]] = defaultdict(set)
    parts = []
    for name, function in methods().items():
        homes = _homes(function)
        for annotation in _annotations(function):
            for each in _names(annotation):
                imports[homes[each]].add(each)
        if _overloads(function):
            imports["typing"].add("overload")
        parts.append(method(name, function))
    lines = [
        f"from {home} import {', '.join(sorted(names))}"
        for home, names in sorted(imports.items())
    ]
    body = textwrap.indent("\n".join(parts), "    ")
    head = f'"""{_DOC}"""\n\n' + "\n".join(lines)
    return f"{head}\n\nclass PythonMethods:\n{body}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    text = stub()
    if not parser.parse_args().check:
        PATH.write_text(text, encoding="utf-8")
        return 0
    if PATH.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PATH.name} is not up to date: python tools/tensor_stub.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
