"""`proa.onnx.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from proa.interop.graph.limits import damaged_as_invalid
from proa.interop.onnx.importer import ops as _rows  # noqa: F401  (rows register themselves)
from proa.interop.onnx.importer.graph import Parser
from proa.interop.onnx.importer.layer import OnnxGraph
from proa.interop.onnx.importer.proto import Source, read_model


def load(
    source: Source,
    fixed: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> OnnxGraph:
    """The Layer of an ONNX model, in evaluation mode.

    Its weights are parameters, so that it can be trained further, written by
    `jit.save` and compressed as any other Layer.

    Args:
        source: The model's path, its bytes, a file opened for them, or a ModelProto.
        fixed: Values of inputs that the Layer then no longer takes, such as a sampling
            rate on which the graph branches; what follows from them alone is folded.
        folder: Where external data must be; None for the folder of a path.

    Raises:
        InvalidArgumentError: If it is no sound ONNX model.
        UnimplementedError: If there is no row for some operators; names all of them.
        UnavailableError: If the package `onnx` is not installed.
        MissingFileError: If there is no such file, or none with its external data.
        OSError: If a file cannot be read.
    """
    with damaged_as_invalid("onnx.load", "ONNX model"):
        with read_model(source, folder) as (message, reader):
            graph = Parser(reader, message).graph
        values = {name: np.asarray(value) for name, value in (fixed or {}).items()}
        layer = OnnxGraph(graph, values)
    layer.eval()
    return layer
