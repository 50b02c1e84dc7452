"""ops.pyi: the types of `proa._core.ops`, whose functions are made from the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row

_HEADER = '''"""The raw function of every operator. Made from the operator table."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor

Array: TypeAlias = Tensor | NDArray[Any] | np.generic | complex
DType: TypeAlias = Any
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


def parameters(row: Row) -> list[str]:
    """The annotated parameters of the op's Python function."""
    parts = []
    for array in row.arrays:
        if array.variadic:
            parts.append(f"*{array.name}: Array")
        elif array.optional:
            parts.append(f"{array.name}: Array | None = None")
        else:
            parts.append(f"{array.name}: Array")
    named = any(a.variadic or a.optional for a in row.arrays)
    required = any(a.required for a in row.attributes)
    # A needed attribute cannot follow an argument with a default but by keyword.
    if named and required and not any(a.variadic for a in row.arrays):
        parts.append("*")
    seen_default = False
    for a in row.attributes:
        if a.required and seen_default and "*" not in parts:
            parts.append("*")
        seen_default |= not a.required
        default = "" if a.required else f" = {a.default!r}"
        parts.append(f"{a.name}: {attribute_type(a)}{default}")
    return [*parts, "name: str | None = None"]


def _function(row: Row, name: str) -> str:
    many = len(row.outputs)
    result = "Tensor" if many == 1 else f"tuple[{', '.join(['Tensor'] * many)}]"
    lines = "".join(f"    {p},\n" for p in parameters(row))
    return f"def {name}(\n{lines}) -> {result}: ...\n"


def stubs(rows: Iterable[Row]) -> str:
    """The stub file."""
    functions = []
    for row in rows:
        functions.append(_function(row, row.name))
        if row.inplace and not row.mutates:
            functions.append(_function(row, f"{row.name}_"))
    return _HEADER + "\n" + "\n".join(functions)
