"""An ONNX model as a Layer."""

from __future__ import annotations

from proa.interop.graph.layer import GraphLayer
from proa.interop.onnx.importer.table import ONNX


class OnnxGraph(GraphLayer):
    """An ONNX model's graph, see `GraphLayer`."""

    table = ONNX
