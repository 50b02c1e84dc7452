"""Reads the operator table without importing `proa` itself, which is not built yet."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proa.schema.row import Row

SOURCE = Path(__file__).resolve().parent.parent / "src" / "proa"


def load() -> dict[str, Row]:
    """All rows by name, in table order."""
    if "proa" not in sys.modules:
        package = types.ModuleType("proa")
        package.__path__ = [str(SOURCE)]
        sys.modules["proa"] = package
    rows: dict[str, Row] = importlib.import_module("proa.schema").ROWS
    return rows


def camel(name: str) -> str:
    """conv2d_grad_input -> Conv2dGradInput; a trailing underscore goes."""
    return "".join(part.capitalize() for part in name.split("_") if part)


def attrs_type(row: Row) -> str:
    """Name of the op's attribute struct."""
    return camel(row.name) + "Attrs"


