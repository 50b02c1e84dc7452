"""Proa as a backend of ONNX's own test suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

import proa
import proa.onnx
from proa.interop.graph.values import constant
from proa.interop.onnx.importer.narrow import HELD, widened


def given(value: Any) -> Any:
    """An input of the suite as a value of a graph."""
    if value is None:
        return None
    if isinstance(value, list):
        return [given(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    return constant(widened(np.asarray(value)))


def produced(value: Any, info: onnx.TypeProto) -> Any:
    """An output of the type that the model says, as the suite compares it."""
    kind = info.WhichOneof("value")
    if kind == "sequence_type":
        return [produced(item, info.sequence_type.elem_type) for item in value]
    if kind == "optional_type":
        inner = info.optional_type.elem_type
        return None if value is None else produced(value, inner)
    if isinstance(value, np.ndarray):
        return value.astype(object)
    wanted = onnx.helper.tensor_dtype_to_np_dtype(info.tensor_type.elem_type)
    if value.dtype.name == "bfloat16":
        return value.astype("float32").numpy().astype(wanted)
    array = value.numpy()
    # Elements that tensors do not have are held by wider ones.
    held = wanted.kind == "u" or wanted.name in HELD
    return array.astype(wanted) if held else array


class Rep(BackendRep):
    """A loaded model."""

    def __init__(self, model: ModelProto) -> None:
        self.layer = proa.onnx.load(model.SerializeToString())
        self.types = [info.type for info in model.graph.output]

    def run(self, inputs: Any, **options: Any) -> list[Any]:
        """The model's outputs as arrays."""
        with proa.no_grad():
            found = self.layer(*[given(v) for v in inputs])
        values = [found] if len(self.types) == 1 else list(found)
        return [produced(v, t) for v, t in zip(values, self.types, strict=True)]


class ProaBackend(Backend):
    """Runs models on the CPU."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> Rep:
        return Rep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
