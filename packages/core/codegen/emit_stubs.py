"""Signatures and docstrings of operators: stubs of `proa._core.ops` and `Tensor`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from emit_docs import PROMOTE, dtypes
from emit_public import names

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row

_HEADER = '''"""The raw function of every operator. Made from the operator table."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor
from proa.base.dtype import DTypeLike

Array: TypeAlias = Tensor | NDArray[Any] | np.generic | complex
DType: TypeAlias = DTypeLike
'''
_TYPES = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "ints": "Sequence[int]",
    "scalar": "float",
    "dtype": "DType",
}


def attribute_type(attribute: Attribute) -> str:
    """The annotation of an attribute."""
    if attribute.type == "choice":
        return f"Literal[{', '.join(map(repr, attribute.choices))}]"
    kind = _TYPES[attribute.type]
    optional = not attribute.required and attribute.default is None
    return f"{kind} | None" if optional else kind


def _parameters(row: Row) -> list[tuple[str, str, str]]:
    """(name, type, default) of the op's Python function; of a star the name alone."""
    parts = []
    for array in row.arrays:
        if array.variadic:
            parts.append((f"*{array.name}", "Array", ""))
        elif array.optional:
            parts.append((array.name, "Array | None", "None"))
        else:
            parts.append((array.name, "Array", ""))
    seen_default = any(a.optional for a in row.arrays)
    starred = any(a.variadic for a in row.arrays)
    for a in row.attributes:
        # A needed attribute cannot follow an argument with a default but by keyword.
        if a.required and seen_default and not starred:
            parts.append(("*", "", ""))
            starred = True
        seen_default |= not a.required
        parts.append((a.name, attribute_type(a), "" if a.required else repr(a.default)))
    return [*parts, ("name", "str | None", "None")]


def _annotated(parameter: tuple[str, str, str]) -> str:
    name, kind, default = parameter
    return name + (f": {kind}" if kind else "") + (f" = {default}" if default else "")


def text_signature(row: Row) -> str:
    """The parameters as `inspect.signature` reads them of a C function."""
    parts = [
        n + (f"={default}" if default else "") for n, _, default in _parameters(row)
    ]
    return f"({', '.join(parts)})"


def docstring(row: Row) -> str:
    """The row's doc; of public ops also what they take."""
    if not row.public:
        return row.doc
    promotion = "" if row.promote == "none" else f"; {PROMOTE[row.promote]}"
    return f"{row.doc}\n\nDtypes: {dtypes(row)}{promotion}."


def inspected(row: Row) -> str:
    """What follows the function's name in the docstring of a C function."""
    return f"{text_signature(row)}\n--\n\n{docstring(row)}"


def _function(row: Row, name: str, inplace: bool, method: bool = False) -> str:
    many = len(row.outputs)
    result = "Tensor" if many == 1 else f"tuple[{', '.join(['Tensor'] * many)}]"
    parameters = [_annotated(p) for p in _parameters(row)]
    if method:  # the object has the name that it has at run time
        parameters[0] = row.arrays[0].name
    text = docstring(row) + ("\n\nIn place." if inplace else "")
    paragraphs = [
        textwrap.fill(p, 80, initial_indent=" " * 4, subsequent_indent=" " * 4)
        for p in text.replace("\\", r"\\").split("\n\n")
    ]
    doc = "\n\n".join(paragraphs).strip()
    end = "\n    " if "\n" in doc else ""
    lines = "".join(f"    {p},\n" for p in parameters)
    return f'def {name}(\n{lines}) -> {result}:\n    """{doc}{end}"""\n'


def stubs(rows: Iterable[Row]) -> str:
    """ops.pyi."""
    functions = []
    for row in rows:
        functions.append(_function(row, row.name, inplace=row.mutates))
        if row.inplace and not row.mutates:
            functions.append(_function(row, f"{row.name}_", inplace=True))
    return _HEADER + "\n" + "\n".join(functions)


_METHODS_HEADER = '''"""Methods of `Tensor` that are operators. Made from the table."""

from collections.abc import Sequence
from typing import Any, Literal

from proa._core import Tensor
from proa._core.ops import Array, DType

class OperatorMethods:
'''


def method_stubs(rows: Iterable[Row]) -> str:
    """methods.pyi: a base class of the stub of `Tensor`."""
    methods = [
        _function(row, name, inplace=function != row.name, method=True)
        for row in rows
        for name, function in names(row, "Tensor")
    ]
    return _METHODS_HEADER + textwrap.indent("\n".join(methods), "    ")
