"""Reads the operator table without importing `proa` itself, which is not built yet."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row

SOURCE = Path(__file__).resolve().parent.parent / "src" / "proa"


def load() -> dict[str, Row]:
    """All rows by name, in table order."""
    if "proa" not in sys.modules:
        package = types.ModuleType("proa")
        package.__path__ = [str(SOURCE)]
        sys.modules["proa"] = package
    rows: dict[str, Row] = importlib.import_module("proa.schema").ROWS
    return rows


_KINDS = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "ints": "I",
    "scalar": "s",
    "dtype": "d",
}


def attribute_kind(attribute: Attribute) -> str:
    """The attribute's character in OpInfo::attr_kinds."""
    if attribute.type == "choice":
        return chr(ord("0") + len(attribute.choices))
    return _KINDS[attribute.type]


def camel(name: str) -> str:
    """conv2d_grad_input -> Conv2dGradInput; a trailing underscore goes."""
    return "".join(part.capitalize() for part in name.split("_") if part)


def attrs_type(row: Row) -> str:
    """Name of the op's attribute struct."""
    return camel(row.name) + "Attrs"
