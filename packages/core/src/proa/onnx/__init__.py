"""ONNX models as Layers: `load`. Needs the extra ``proa[onnx]``."""

from proa.onnx.layer import OnnxGraph
from proa.onnx.load import load

__all__ = ["OnnxGraph", "load"]


def __dir__() -> list[str]:
    return __all__
