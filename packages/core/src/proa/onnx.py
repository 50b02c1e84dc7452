"""ONNX models as Layers and back: `load`, `export`. Needs the extra ``proa[onnx]``."""

from proa.interop.onnx.exporter.export import export
from proa.interop.onnx.importer.layer import OnnxGraph
from proa.interop.onnx.importer.load import load

__all__ = ["OnnxGraph", "export", "load"]


def __dir__() -> list[str]:
    return __all__
