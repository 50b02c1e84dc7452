"""Rows of the domain `com.microsoft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proa.interop.graph.table import Rule
from proa.interop.onnx.importer.table import onnx_op


def microsoft_op(*names: str, **more: Any) -> Callable[[Rule], Rule]:
    """`onnx_op` in the domain `com.microsoft`."""
    return onnx_op(*names, domain="com.microsoft", **more)
