"""Operators of the domain `com.microsoft`, which onnxruntime's tools write."""

from proa.interop.onnx.importer.ops.microsoft import (
    attention,
    fused,
    grouped,
    quantized,
)

__all__ = ["attention", "fused", "grouped", "quantized"]
