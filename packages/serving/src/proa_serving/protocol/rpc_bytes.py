"""Inference requests and answers as the bytes of their protobuf messages.

Raw tensors are most of a message, and protobuf's Python messages copy them twice. Here
they are found in the bytes that arrived, and answers are the output arrays with a few
bytes before each. What is not a plain request with raw tensors last goes through the
messages of :mod:`proa_serving.protocol.rpc`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from proa_serving.protocol import rpc
from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    Parameters,
    RequestedOutput,
)
from proa_serving.protocol.tensors import Buffer, raw_from_tensor, tensor_from_checked

# The tags of ModelInferRequest's fields, all of them length-delimited: number * 8 + 2.
_ID, _RAW_INPUT, _LAST = 0x1A, 0x3A, 0x3A
_FIRST = 0x0A
_RAW_OUTPUT = b"\x32"


class _Head(NamedTuple):
    """A request whose tensors are all raw, but for its id and their bytes."""

    model: str
    version: str
    inputs: list[tuple[str, str, tuple[int, ...], int]]  # name, datatype, shape, bytes
    outputs: list[RequestedOutput]
    parameters: Parameters
    binary_output: bool


# Clients send the same fields again and again; ids and raw bytes change.
_heads: dict[bytes, _Head] = {}
_MAX_HEADS = 256
_MAX_HEAD_BYTES = 2048


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at ``at`` and where it ends; IndexError at the end of the data."""
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError


def find_raw(data: memoryview) -> int:
    """Where the first raw tensor begins in a message, of which this is the start."""
    at = 0
    try:
        while True:
            tag = data[at]
            size, at = _varint(data, at + 1)
            if tag == _RAW_INPUT:
                return at
            at += size
    except IndexError:
        return 0


def raw_ranges(data: memoryview) -> list[tuple[int, int]]:
    """Where the raw tensors of a message begin and end.

    Returns:
        None of them where it does not end with them, or has an id.
    """
    at, end = 0, len(data)
    found: list[tuple[int, int]] = []
    try:
        while at < end:
            tag = data[at]
            size, body = _varint(data, at + 1)
            at = body + size
            if tag == _RAW_INPUT and at <= end:
                found.append((body, at))
            elif found or tag == _ID or tag & 7 != 2:
                return []
    except IndexError:
        return []
    return found


def _split(data: memoryview) -> tuple[bytes, bytes, list[memoryview]] | None:
    """The head, the id's field, and the raw tensors; None if it is not so plain."""
    at, end = 0, len(data)
    start = end  # of the raw tensors
    id_at = id_end = 0
    raw = []
    try:
        while at < end:
            tag = data[at]
            size, body = _varint(data, at + 1)
            after = body + size
            if tag & 7 != 2 or not _FIRST <= tag <= _LAST or after > end:
                return None
            if tag == _RAW_INPUT:
                start = min(start, at)
                raw.append(data[body:after])
            elif raw:
                return None
            elif tag == _ID:
                if id_end:
                    return None
                id_at, id_end = at, after
            at = after
    except IndexError:
        return None
    if id_end:
        head = bytes(data[:id_at]) + bytes(data[id_end:start])
        return head, bytes(data[id_at:id_end]), raw
    return bytes(data[:start]), b"", raw


def _parsed(data: bytes) -> pb.ModelInferRequest:
    try:
        message: pb.ModelInferRequest = pb.ModelInferRequest.FromString(data)
    except DecodeError as error:
        text = f"the message cannot be parsed: {error}"
        raise InvalidRequestError("grpc", text) from error
    return message


def decode_request(data: Buffer) -> InferRequest:
    """The inference request of a ModelInferRequest; raw tensors are views of it.

    Raises:
        InvalidRequestError: If it is none.
    """
    view = memoryview(data)
    parts = _split(view)
    if parts is None or not parts[2]:
        message = _parsed(bytes(view))
        return rpc.decode_request(message, message.raw_input_contents)
    head, id_field, raw = parts
    known = _heads.get(head)
    if known is None or len(known.inputs) != len(raw):
        message = _parsed(head + id_field)
        request = rpc.decode_request(message, raw)
        _remember(head, request)
        return request
    inputs = []
    for (name, datatype, shape, size), held in zip(known.inputs, raw, strict=True):
        if len(held) != size:  # Says what is wrong with it.
            return rpc.decode_request(_parsed(head + id_field), raw)
        inputs.append(tensor_from_checked(name, datatype, shape, held))
    return InferRequest(
        known.model,
        inputs,
        known.version,
        _parsed(id_field).id if id_field else "",
        known.outputs,
        known.parameters,
        known.binary_output,
    )


def _remember(head: bytes, request: InferRequest) -> None:
    if len(head) > _MAX_HEAD_BYTES or request.is_shared:
        return
    if any(held.datatype == "BYTES" for held in request.inputs):
        return  # Their sizes are not those of their arrays.
    if len(_heads) >= _MAX_HEADS:
        _heads.clear()
    _heads[head] = _Head(
        request.model,
        request.version,
        [
            (held.name, held.datatype, held.array.shape, held.array.nbytes)
            for held in request.inputs
        ],
        request.outputs,
        request.parameters,
        request.binary_output,
    )


@functools.lru_cache(maxsize=256)
def _response_head(
    model: str, version: str, outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
) -> bytes:
    """An answer but for its id and its raw tensors."""
    message = pb.ModelInferResponse(model_name=model, model_version=version)
    for name, datatype, shape in outputs:
        message.outputs.add(name=name, datatype=datatype, shape=shape)
    data: bytes = message.SerializeToString()
    return data


def _size(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def encode_response(response: InferResponse, request: InferRequest) -> list[Buffer]:
    """The parts of the ModelInferResponse that answers ``request``."""
    if request.is_shared or not rpc.is_raw(response, request):
        message: Any = rpc.encode_response(response, request)
        return [message.SerializeToString()]
    outputs = tuple(
        (held.name, held.datatype, held.array.shape) for held in response.outputs
    )
    parts: list[Buffer] = [_response_head(response.model, response.version, outputs)]
    if response.id:
        parts.append(pb.ModelInferResponse(id=response.id).SerializeToString())
    for held in response.outputs:
        raw = raw_from_tensor(held)
        parts.append(_RAW_OUTPUT + _size(len(raw)))
        parts.append(raw)
    return parts
