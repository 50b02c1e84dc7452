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
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

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


def _homes(function: FunctionType) -> dict[str, str]:
    """Where the module of a function imports each name from, or defines it."""
    module = inspect.getmodule(function)
    assert module is not None
    homes = dict.fromkeys(vars(module), module.__name__)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                homes[alias.asname or alias.name] = node.module
    return homes


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


def method(name: str, function: Callable[..., Any]) -> str:
    """The stub of one method."""
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    parameters = [_parameter(p, i == 0) for i, p in enumerate(given)]
    by_keyword = [i for i, p in enumerate(given) if p.kind is p.KEYWORD_ONLY]
    if by_keyword and not any(p.kind is p.VAR_POSITIONAL for p in given):
        parameters.insert(by_keyword[0], "*")
    lines = "".join(f"    {each},\n" for each in parameters)
    doc = inspect.getdoc(function)
    body = "    ...\n"
    if doc:
        end = "\n" if "\n" in doc else ""
        quoted = doc.replace("\\", "\\\\")
        body = textwrap.indent(f'"""{quoted}{end}"""\n', "    ")
    return f"def {name}(\n{lines}) -> {signature.return_annotation}:\n{body}"


def stub() -> str:
    """The text of the file."""
    imports: dict[str, set[str]] = defaultdict(set)
    parts = []
    for name, function in methods().items():
        homes = _homes(function)
        for annotation in function.__annotations__.values():
            for each in _names(annotation):
                imports[homes[each]].add(each)
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
