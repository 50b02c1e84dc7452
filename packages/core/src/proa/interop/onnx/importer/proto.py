"""ONNX's messages, read by the package `onnx` of the extra ``proa[onnx]``."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError, UnavailableError
from proa.interop.graph.node import Info
from proa.interop.graph.values import Array, held_dtype


def onnx_package() -> Any:
    """The `onnx` package.

    Raises:
        UnavailableError: If it is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise UnavailableError(
            "[onnx] ONNX models need the package `onnx`, which is not "
            "installed: pip install 'proa[onnx]'"
        ) from None
    return onnx


class Reader:
    """Makes arrays and plain values of messages.

    Args:
        folder: Where external data is; None for a model that came as bytes.
    """

    def __init__(self, folder: Path | None) -> None:
        self.onnx = onnx_package()
        self.folder = folder
        self._kinds: dict[int, str] = {
            v: k for k, v in self.onnx.AttributeProto.AttributeType.items()
        }

    def model(self, data: bytes) -> Any:
        """The message of a whole file."""
        model = self.onnx.ModelProto()
        from google.protobuf.message import DecodeError

        try:
            model.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not model.HasField("graph") or not model.opset_import:
            raise ValueError("a model without a graph or opset")
        return model

    def dtype(self, code: int) -> str:
        """NumPy's name of an element type."""
        found: np.dtype[Any] = self.onnx.helper.tensor_dtype_to_np_dtype(code)
        return "str" if found.kind == "O" else found.name

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor."""
        shape = list(tensor.dims)
        if min(shape, default=0) < 0:
            raise ValueError(f"a tensor of shape {shape}")
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return self._external(tensor, shape)
        array: Array = self.onnx.numpy_helper.to_array(tensor)
        return array

    def _external(self, tensor: Any, shape: list[int]) -> Array:
        about = {entry.key: entry.value for entry in tensor.external_data}
        if self.folder is None:
            raise ValueError("external data in a model without a folder")
        path = (self.folder / about["location"]).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"external data outside the model's folder: {path}")
        kind = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        if kind.kind == "O":
            raise ValueError("text as external data")
        offset, count = int(about.get("offset", 0)), math.prod(shape)
        size = os.path.getsize(path)
        if offset < 0 or offset + count * kind.itemsize > size:
            raise ValueError(f"{count} elements at byte {offset} of {size} in {path}")
        return np.fromfile(path, kind, count, offset=offset).reshape(shape)

    def dense(self, sparse: Any) -> Array:
        """A sparse tensor with all its elements."""
        values, index = self.array(sparse.values), self.array(sparse.indices)
        shape = list(sparse.dims)
        if math.prod(shape) > 1 << 28:
            raise ValueError(f"a sparse tensor of shape {shape}")
        flat = np.zeros(math.prod(shape), values.dtype)
        if index.ndim == 2:
            index = np.ravel_multi_index(tuple(index.T), tuple(shape))
        flat[index] = values
        return flat.reshape(shape)

    def attribute_kind(self, proto: Any) -> str:
        """``INT``, ``FLOATS``, ``GRAPH``, …"""
        return self._kinds[proto.type]

    def attribute(self, proto: Any, kind: str) -> Any:
        """A plain value: number, text, array, or a list of them."""
        if kind in ("FLOAT", "INT"):
            return proto.f if kind == "FLOAT" else proto.i
        if kind in ("FLOATS", "INTS"):
            return list(proto.floats if kind == "FLOATS" else proto.ints)
        if kind == "STRING":
            return proto.s.decode()
        if kind == "STRINGS":
            return [text.decode() for text in proto.strings]
        if kind == "TENSOR":
            return self.array(proto.t)
        if kind == "SPARSE_TENSOR":
            return self.dense(proto.sparse_tensor)
        if kind == "TYPE_PROTO":
            return self.info_of(proto.tp, "")
        raise ValueError(f"an attribute of type {kind}")

    def info(self, value: Any) -> Info:
        """What the message of an input or output says."""
        return self.info_of(value.type, value.name)

    def info_of(self, kind: Any, name: str) -> Info:
        """What a type's message says."""
        case = kind.WhichOneof("value")
        if case in ("sequence_type", "optional_type"):
            inner = self.info_of(getattr(kind, case).elem_type, name)
            return Info(name, inner.dtype, inner.shape, case.removesuffix("_type"))
        if case != "tensor_type" or not kind.tensor_type.elem_type:
            return Info(name, None, None)
        tensor = kind.tensor_type
        shape: list[int | None] | None = None
        if tensor.HasField("shape"):
            shape = [
                d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None
                for d in tensor.shape.dim
            ]
        return Info(name, held_dtype(self.dtype(tensor.elem_type)), shape)

    def defined_by_others(self, op: str, domain: str, opset: int) -> Any:
        """The function by which the standard defines an operator, or None."""
        try:
            schema = self.onnx.defs.get_schema(op, opset, domain)
        except self.onnx.defs.SchemaError:
            return None
        if not schema.has_function:
            return None
        return schema.function_body


def read_model(source: bytes | str | os.PathLike[str]) -> tuple[Any, Reader]:
    """The message of a model, and what reads its parts."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        reader = Reader(None)
        return reader.model(bytes(source)), reader
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"[onnx.load] expected a path or bytes, got {type(source).__name__}"
        )
    path = Path(source)
    reader = Reader(path.parent)
    return reader.model(path.read_bytes()), reader
