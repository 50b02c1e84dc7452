"""ONNX's messages, read by the package `onnx` of the extra ``proa[onnx]``."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from proa.errors import InvalidArgumentError, MissingFileError, UnavailableError
from proa.interop.graph.node import Info
from proa.interop.graph.values import Array, held_dtype
from proa.interop.onnx.importer.narrow import HELD
from proa.interop.onnx.importer.payload import Span, split


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
        stream: The encoded model, which must stay open.
        folder: Where external data is; None for a model that came as bytes.
    """

    def __init__(self, stream: io.BufferedIOBase, folder: Path | None) -> None:
        self.onnx = onnx_package()
        self.stream, self.folder = stream, folder
        self._spans: list[Span] = []
        self._kinds: dict[int, str] = {
            v: k for k, v in self.onnx.AttributeProto.AttributeType.items()
        }

    def model(self) -> Any:
        """The message, without the elements of large initializers."""
        model = self.onnx.ModelProto()
        from google.protobuf.message import DecodeError

        data, self._spans = split(self.stream, self.stream.seek(0, os.SEEK_END))
        try:
            model.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not model.HasField("graph") or not model.opset_import:
            raise ValueError("a model without a graph or opset")
        return model

    def initializers(self, tensors: Sequence[Any]) -> dict[str, Array]:
        """The arrays of the model's own initializers by name."""
        spans = self._spans or [None] * len(tensors)
        return {
            tensor.name: self.array(tensor)
            if span is None
            else self._read(tensor, span)
            for tensor, span in zip(tensors, spans, strict=True)
        }

    def _read(self, tensor: Any, span: tuple[int, int]) -> Array:
        """The elements of a tensor that are in the file, not in its message."""
        start, stop = span
        self.stream.seek(start)
        kind = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        shape, external = list(tensor.dims), self.onnx.TensorProto.EXTERNAL
        fits = min(shape, default=0) >= 0 and tensor.data_location != external
        if (
            kind.kind == "O"
            or not fits
            or stop - start != math.prod(shape) * kind.itemsize
        ):
            tensor.raw_data = self.stream.read(stop - start)  # packed, or damaged
            return self.array(tensor)
        found = np.empty(shape, kind)
        count = self.stream.readinto(found.reshape(-1).view(np.uint8).data)
        if count != stop - start:
            raise ValueError(f"a file that ends after {count} bytes of a tensor")
        return found

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
        found: Array = self.onnx.numpy_helper.to_array(tensor)
        return found

    def _external(self, tensor: Any, shape: list[int]) -> Array:
        about = {entry.key: entry.value for entry in tensor.external_data}
        if self.folder is None:
            raise ValueError("external data of a model without a path (give folder)")
        path = (self.folder / about["location"]).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"external data outside the model's folder: {path}")
        kind = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        if kind.kind == "O":
            raise ValueError("text as external data")
        offset, count = int(about.get("offset", 0)), math.prod(shape)
        size, taken = _existing(path).stat().st_size, count * kind.itemsize
        if kind.name in PACKED:
            taken = -(-count * PACKED[kind.name] // 8)
        if offset < 0 or offset + taken > size:
            raise ValueError(f"{count} elements at byte {offset} of {size} in {path}")
        if kind.name not in PACKED:
            return np.fromfile(path, kind, count, offset=offset).reshape(shape)
        tensor.data_location = self.onnx.TensorProto.DEFAULT
        tensor.raw_data = np.fromfile(path, np.uint8, taken, offset=offset).tobytes()
        return self.array(tensor)

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
        dtype = self.dtype(tensor.elem_type)
        return Info(name, HELD.get(dtype) or held_dtype(dtype), shape)

    def narrow_kind(self, value: Any) -> str | None:
        """The dtype that the message of an input says, if its elements are narrow."""
        code = value.type.tensor_type.elem_type
        kind = self.dtype(code) if code else None
        return kind if kind in HELD else None

    def defined_by_others(self, op: str, domain: str, opset: int) -> Any:
        """The function by which the standard defines an operator, or None."""
        try:
            schema = self.onnx.defs.get_schema(op, opset, domain)
        except self.onnx.defs.SchemaError:
            return None
        if not schema.has_function:
            return None
        return schema.function_body


#: Bits of the elements that share bytes.
PACKED = {"int2": 2, "int4": 4, "uint2": 2, "uint4": 4, "float4_e2m1fn": 4}


class Message(Protocol):
    """A message of protocol buffers, such as `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:
        """The message as bytes."""


Source = bytes | str | os.PathLike[str] | IO[bytes] | Message


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise MissingFileError(f"[onnx.load] no such file: {path}")
    return path


def _opened(source: Source) -> io.BufferedIOBase:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source)
    if isinstance(source, (str, os.PathLike)):
        return _existing(Path(source)).open("rb")
    for method in ("SerializeToString", "read"):
        read = getattr(source, method, None)
        if callable(read) and isinstance(data := read(), bytes):
            return io.BytesIO(data)
    raise InvalidArgumentError(
        "[onnx.load] expected a path, bytes, a file opened for them or a ModelProto, "
        f"got {type(source).__name__}"
    )


@contextmanager
def read_model(
    source: Source, folder: str | os.PathLike[str] | None = None
) -> Iterator[tuple[Any, Reader]]:
    """The message of a model, and what reads its parts while the file is open.

    Args:
        source: The model.
        folder: Where external data is; None for the folder of a path.
    """
    if folder is None and isinstance(source, (str, os.PathLike)):
        folder = Path(source).parent
    with _opened(source) as stream:
        reader = Reader(stream, None if folder is None else Path(folder))
        yield reader.model(), reader
