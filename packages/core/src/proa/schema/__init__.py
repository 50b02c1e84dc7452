"""The operator table. Standard library only: the build itself reads it.

The rows are made when a name of this package is first requested, so that `import proa`,
which needs the element types alone, does not wait for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proa.schema.row import COMPOSITE, REFUSED, ROWS, Array, Attribute, Row, op


def output_name(op: str, number: int) -> str:
    """The row's name of an op's output; its number if there is no such row."""
    from proa import schema
    from proa.schema.extension import EXTENSION_ROWS

    row = schema.ROWS.get(op) or EXTENSION_ROWS.get(op)
    if row is None or number >= len(row.outputs):
        return str(number)
    return row.outputs[number]


__all__ = [
    "COMPOSITE",
    "REFUSED",
    "ROWS",
    "Array",
    "Attribute",
    "Row",
    "op",
    "output_name",
]


def __getattr__(name: str) -> Any:
    if name not in __all__ or name == "output_name":
        raise AttributeError(f"module 'proa.schema' has no attribute {name!r}")
    importlib.import_module("proa.schema.ops")  # fills ROWS
    return getattr(importlib.import_module("proa.schema.row"), name)
