"""The package `proa.ops`: functions and methods that are operators themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proa.schema.row import Row

#: Namespace -> module of `proa.ops` with its functions.
_MODULES = {"proa": "functions", "proa.nn.functional": "functional"}


def names(row: Row, namespace: str) -> list[tuple[str, str]]:
    """(public name there, name in `proa._core.ops`) of the row's forms."""
    forms = [(p, row.name) for p in row.public]
    forms += [(p, f"{row.name}_") for p in row.public_inplace]
    split = [(*p.rpartition("."), function) for p, function in forms]
    return [
        (name, function) for space, _, name, function in split if space == namespace
    ]


def _functions(rows: Iterable[Row], namespace: str) -> str:
    found = sorted(pair for row in rows for pair in names(row, namespace))
    imports = "".join(f"    {function} as {name},\n" for name, function in found)
    exported = "".join(f'    "{name}",\n' for name, _ in found)
    return (
        f'"""Operators that are functions of `{namespace}`. Made from the table."""\n\n'
        f"from proa._core.ops import (\n{imports})\n\n__all__ = [\n{exported}]\n"
    )


def _methods(rows: Iterable[Row]) -> str:
    found = sorted(pair for row in rows for pair in names(row, "Tensor"))
    entries = "".join(f'    "{name}": ops.{function},\n' for name, function in found)
    return (
        '"""Operators that are methods of `Tensor`. Made from the table."""\n\n'
        "from collections.abc import Callable\nfrom typing import Any\n\n"
        "from proa._core import ops\n\n"
        f"METHODS: dict[str, Callable[..., Any]] = {{\n{entries}}}\n"
    )


def package(rows: list[Row]) -> dict[str, str]:
    """File name to text."""
    files = {
        f"{module}.py": _functions(rows, namespace)
        for namespace, module in _MODULES.items()
    }
    doc = '"""Operators that are public as functions, by the operator table."""\n'
    return {"__init__.py": doc, "methods.py": _methods(rows), **files}
