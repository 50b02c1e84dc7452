"""Messages of PaddlePaddle's model files, by the wheel `protobuf`.

The extra ``proa[paddle]`` brings it. Descriptors are made from the table below, in a
pool of their own, so that PaddlePaddle itself may be imported in the same process.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from proa.errors import UnavailableError

_PACKAGE = "proa.paddle"

#: Fields of messages: name, type, number, and ``*`` if repeated, ``!`` if required.
_MESSAGES = {
    "Version": "version int64 1",
    "OpVersion": "version int32 1!",
    "OpVersionPair": "op_name string 1!, op_version OpVersion 2!",
    "OpVersionMap": "pair OpVersionPair 1*",
    "Complex": "r double 1!, i double 2!",
    "Scalar": "type int32 1!, b bool 2, i int64 3, r double 4, c Complex 5",
    "Attribute": "name string 1!, type int32 2!, i int32 3, f float 4, s string 5, "
    "ints int32 6*, floats float 7*, strings string 8*, b bool 10, bools bool 11*, "
    "block_idx int32 12, l int64 13, blocks_idx int32 14*, longs int64 15*, "
    "float64s double 16*, var_name string 17, vars_name string 18*, "
    "float64 double 19, scalar Scalar 20, scalars Scalar 21*",
    "Slot": "parameter string 1!, arguments string 2*",
    "OpDesc": "inputs Slot 1*, outputs Slot 2*, type string 3!, attrs Attribute 4*, "
    "is_target bool 5",
    "TensorDesc": "data_type int32 1!, dims int64 2*",
    "LoDTensorDesc": "tensor TensorDesc 1!, lod_level int32 2",
    "ReaderDesc": "lod_tensor LoDTensorDesc 1*",
    "Tuple": "element_type int32 1*",
    "VarType": "type int32 1!, selected_rows TensorDesc 2, lod_tensor LoDTensorDesc 3, "
    "tensor_array LoDTensorDesc 4, reader ReaderDesc 5, tuple Tuple 7, "
    "string TensorDesc 8, strings TensorDesc 9, vocab TensorDesc 10, "
    "sparse_coo TensorDesc 11, sparse_csr TensorDesc 12",
    "VarAttribute": "name string 1!, type int32 2!, i int32 3, s string 4, "
    "ints int32 5*",
    "VarDesc": "name string 1!, type VarType 2!, persistable bool 3, "
    "need_check_feed bool 4, is_parameter bool 5, stop_gradient bool 6, "
    "attrs VarAttribute 7*",
    "BlockDesc": "idx int32 1!, parent_idx int32 2!, vars VarDesc 3*, ops OpDesc 4*, "
    "forward_block_idx int32 5",
    "ProgramDesc": "blocks BlockDesc 1*, version Version 4, "
    "op_version_map OpVersionMap 5",
}

#: Protocol buffers' numbers of the types of fields.
_TYPES = {"double": 1, "float": 2, "int64": 3, "int32": 5, "bool": 8, "string": 9}
_MESSAGE = 11
_LABELS = {"": 1, "!": 2, "*": 3}

#: Which field of an attribute has its value, by the attribute's type.
ATTRIBUTE_FIELDS = (
    "i", "f", "s", "ints", "floats", "strings", "b", "bools", "block_idx", "l",
    "blocks_idx", "longs", "float64s", "var_name", "vars_name", "float64", "scalar",
    "scalars",
)  # fmt: skip

#: Names of data types by their numbers, and kinds of variables, which share them.
DTYPES = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32",
    6: "float64", 20: "uint8", 21: "int8", 22: "bfloat16", 23: "complex64",
    24: "complex128",
}  # fmt: skip
LOD_TENSOR, FEED_MINIBATCH, FETCH_LIST, LOD_TENSOR_ARRAY = 7, 9, 10, 13


@functools.cache
def _pool() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise UnavailableError(
            "[paddle] PaddlePaddle's model files need the package `protobuf`, which is "
            "not installed: pip install 'proa[paddle]'"
        ) from None
    file = descriptor_pb2.FileDescriptorProto()
    file.name, file.package, file.syntax = "proa/paddle.proto", _PACKAGE, "proto2"
    for message, fields in _MESSAGES.items():
        kind = file.message_type.add()
        kind.name = message
        for text in fields.split(", "):
            found = re.fullmatch(r"(\w+) (\w+) (\d+)([!*]?)", text)
            assert found is not None
            field = kind.field.add()
            field.name, field.number = found[1], int(found[3])
            field.label = _LABELS[found[4]]
            field.type = _TYPES.get(found[2], _MESSAGE)
            if found[2] not in _TYPES:
                field.type_name = f".{_PACKAGE}.{found[2]}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def message(name: str) -> Any:
    """An empty message.

    Raises:
        UnavailableError: If the package `protobuf` is not installed.
    """
    found = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(found)()


def parse(name: str, data: bytes) -> Any:
    """A message's bytes as that message.

    Raises:
        ValueError: If they are none.
    """
    empty = message(name)
    from google.protobuf.message import DecodeError

    try:
        empty.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return empty


def attributes(op: Any) -> dict[str, Any]:
    """An operator's attributes as plain values."""
    found = {}
    for attribute in op.attrs:
        value = getattr(attribute, ATTRIBUTE_FIELDS[attribute.type])
        found[attribute.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "ListFields"):  # a Scalar
        return _scalar(value)
    return [_scalar(v) if hasattr(v, "ListFields") else v for v in value]


def _scalar(value: Any) -> Any:
    if value.type == 4:
        return complex(value.c.r, value.c.i)
    return {1: value.b, 2: value.i, 3: value.r}[value.type]


def variable_shape(variable: Any) -> tuple[str | None, list[int | None]]:
    """Data type and sizes of a tensor variable; None for what is not known."""
    tensor = variable.type.lod_tensor.tensor
    dims = [None if n < 0 else n for n in tensor.dims]
    return DTYPES.get(tensor.data_type), dims
