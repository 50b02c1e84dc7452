"""Requests and answers as HTTP bodies: JSON, then the raw bytes of binary tensors.

With the binary tensor data extension a body is a JSON object of
``Inference-Header-Content-Length`` bytes followed by the tensors that named a
``binary_data_size``, in their order. Without that header all of it is JSON.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from proa_serving.protocol.errors import InvalidRequestError, UnsupportedError
from proa_serving.protocol.large_json import parse_large_json
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    Parameters,
    RegionSlice,
    RequestedOutput,
    SharedInput,
    Tensor,
)
from proa_serving.protocol.tensors import (
    Buffer,
    check_shape,
    lists_from_tensor,
    raw_from_tensor,
    tensor_from_checked,
    tensor_from_list,
    tensor_from_raw,
)

HEADER_LENGTH = "Inference-Header-Content-Length"
JSON_TYPE = "application/json"
# Beyond this, JSON is parsed in chunks; it takes longer, but holds no other thread.
_LARGE = 2**16
_dump = json.JSONEncoder(separators=(",", ":")).encode
BINARY_TYPE = "application/octet-stream"


def parse_json(data: Buffer, where: str) -> dict[str, Any]:
    """The JSON object in ``data``, or a typed error."""
    try:
        if len(data) > _LARGE:
            held = parse_large_json(str(data, "utf-8"))
        else:
            held = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            where, f"body must be a JSON object: {error!s:.200}"
        ) from None
    if not isinstance(held, dict):
        raise InvalidRequestError(
            where, f"body must be a JSON object, got a {type(held).__name__}"
        )
    return held


def dump_json(held: Any) -> bytes:
    """Compact JSON; what is not a number is written NaN or Infinity."""
    return _dump(held).encode()


class _Body:
    """A body cut into its JSON and the raw bytes that follow, taken in order."""

    def __init__(self, body: Buffer, header_length: str | None, where: str) -> None:
        self._where = where
        self._raw = memoryview(b"")
        if header_length is not None:
            size = self._size_of_json(header_length, len(body))
            self._raw = memoryview(body)[size:]
            body = memoryview(body)[:size]
        self.json = parse_json(body, where)
        self._at = 0

    def _size_of_json(self, text: str, limit: int) -> int:
        # int() takes "1_0" and other digits too; the header is plain digits.
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise InvalidRequestError(
                self._where, f"{HEADER_LENGTH} must be a number, got {text!r:.40}"
            )
        if int(text) > limit:
            raise InvalidRequestError(
                self._where,
                f"{HEADER_LENGTH} must be at most the body's {limit} bytes, got {text}",
            )
        return int(text)

    def take(self, size: Any, where: str) -> memoryview:
        left = len(self._raw) - self._at
        if type(size) is not int or size < 0:
            raise InvalidRequestError(
                where, f"binary_data_size must be a size, got {size!r:.40}"
            )
        if size > left:
            raise InvalidRequestError(
                where,
                f"binary_data_size must be at most the {left} bytes left in the body, "
                f"got {size}",
            )
        self._at += size
        return self._raw[self._at - size : self._at]

    def finish(self) -> None:
        left = len(self._raw) - self._at
        if left:
            raise InvalidRequestError(
                self._where,
                f"the body must end with its last binary tensor, got {left} bytes more",
            )


def _tensors(
    held: Any, body: _Body, what: str
) -> tuple[list[Tensor], list[SharedInput]]:
    """The tensors of a list, and those of them that are in shared memory."""
    tensors: list[Tensor] = []
    shared: list[SharedInput] = []
    for item in _objects(held, what):
        found = _tensor(item, body, what)
        if isinstance(found, Tensor):
            tensors.append(found)
        else:
            shared.append(found)
    return tensors, shared


def _objects(held: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(held, list) or not all(isinstance(item, dict) for item in held):
        raise InvalidRequestError(
            "request", f"{what} must be a list of objects, got {held!r:.60}"
        )
    return held


def _string(held: Mapping[str, Any], key: str, where: str, default: str = "") -> str:
    value = held.get(key, default)
    if not isinstance(value, str):
        raise InvalidRequestError(where, f"{key} must be a string, got {value!r:.40}")
    return value


def _parameters(held: Mapping[str, Any], where: str) -> Parameters:
    value = held.get("parameters")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequestError(
            where, f"parameters must be an object, got {value!r:.40}"
        )
    return value


def _flag(parameters: Parameters, key: str, where: str) -> bool | None:
    value = parameters.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequestError(
            where, f"{key} must be true or false, got {value!r:.40}"
        )
    return value


def region_slice(parameters: Parameters, where: str) -> RegionSlice | None:
    """The shared memory that a tensor's parameters name, if they do.

    Raises:
        UnsupportedError: If they want what this server does not do.
        InvalidRequestError: If they are malformed.
    """
    if parameters.get("classification"):
        raise UnsupportedError(where, "classification is not supported by this server")
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    if not isinstance(region, str) or not region:
        raise InvalidRequestError(
            where, f"shared_memory_region must be a name, got {region!r:.40}"
        )
    sizes = []
    for key, default in (("shared_memory_offset", 0), ("shared_memory_byte_size", -1)):
        size = parameters.get(key, default)
        if type(size) is not int or not 0 <= size < 2**62:
            raise InvalidRequestError(where, f"{key} must be a size, got {size!r:.40}")
        sizes.append(size)
    return RegionSlice(region, *sizes)


def _tensor(held: dict[str, Any], body: _Body, what: str) -> Tensor | SharedInput:
    name = _string(held, "name", what)
    where = f"{what} {name!r:.80}"
    if not name:
        raise InvalidRequestError(what, "each tensor must have a name")
    datatype = _string(held, "datatype", where)
    shape = check_shape(held.get("shape"), where)
    parameters = _parameters(held, where)
    shared = region_slice(parameters, where)
    if shared is not None:
        if "data" in held or "binary_data_size" in parameters:
            raise InvalidRequestError(
                where, "must have data or shared memory, got both"
            )
        return SharedInput(name, datatype, shape, shared)
    if "binary_data_size" in parameters:
        if "data" in held:
            raise InvalidRequestError(
                where, "must have data or binary_data_size, got both"
            )
        raw = body.take(parameters["binary_data_size"], where)
        return tensor_from_raw(name, datatype, shape, raw)
    if "data" not in held:
        raise InvalidRequestError(
            where, "must have data or binary_data_size, got neither"
        )
    return tensor_from_list(name, datatype, shape, held["data"])


class _Head(NamedTuple):
    """The JSON of a request whose tensors are all raw, as it was decoded before."""

    inputs: list[tuple[str, str, tuple[int, ...], int]]  # name, datatype, shape, bytes
    size: int  # of the body
    outputs: list[RequestedOutput]
    parameters: Parameters
    binary_output: bool
    id: str


# Clients send the same JSON again and again; numbers change, and they are raw.
_heads: dict[bytes, _Head] = {}
_MAX_HEADS = 256
_MAX_HEAD_BYTES = 2048


def decode_request(
    model: str, version: str, body: Buffer, header_length: str | None
) -> InferRequest:
    """The inference request in a body that was posted to a model's ``infer``."""
    if header_length is None or not 0 < len(header_length) < 5:
        return _decode_request(model, version, body, header_length)
    size = int(header_length) if header_length.isdecimal() else 0
    head = bytes(body[:size])
    known = _heads.get(head)
    if known is not None and known.size == len(body):
        at, inputs = size, []
        view = memoryview(body)
        for name, datatype, shape, count in known.inputs:
            raw = view[at : at + count]
            inputs.append(tensor_from_checked(name, datatype, shape, raw))
            at += count
        return InferRequest(
            model,
            inputs,
            version,
            known.id,
            known.outputs,
            known.parameters,
            known.binary_output,
        )
    request = _decode_request(model, version, body, header_length)
    _remember(head, len(body), request)
    return request


# A request's id, where no character must be escaped.
_ID = re.compile(rb'"id":[ ]?"([ !#-[\]-~]+)"')
NO_ID = b"\0"


def without_id(text: bytes) -> tuple[bytes, bytes]:
    """The JSON of a request with each byte of its id as ``NO_ID``, and the id.

    Two requests of which the first is equal differ in nothing else, if what was found
    is the id, which it need not be.
    """
    if b'"id"' not in text:
        return text, b""
    found = _ID.search(text)
    if found is None or text.count(b'"id"') != 1:
        return text, b""
    begin, end = found.span(1)
    return text[:begin] + NO_ID * (end - begin) + text[end:], found[1]


def raw_places(body: Buffer, size: int) -> list[int] | None:
    """Where the inputs begin after ``size`` bytes of JSON, in a request like others.

    Returns:
        None if the JSON was not seen before, or an input is not raw.
    """
    known = _heads.get(bytes(body[:size]))
    if known is None or known.size != len(body):
        return None
    counts = [0, *(count for _, _, _, count in known.inputs)]
    return list(itertools.accumulate(counts[:-1]))


def _remember(head: bytes, size: int, request: InferRequest) -> None:
    inputs = []
    left = size - len(head)
    for held in request.inputs:
        if held.datatype == "BYTES":  # Its size is not that of its array.
            return
        count = held.array.nbytes
        inputs.append((held.name, held.datatype, held.array.shape, count))
        left -= count
    # What is left would be tensors in the JSON.
    if left or request.is_shared or request.id or len(head) > _MAX_HEAD_BYTES:
        return
    if len(_heads) >= _MAX_HEADS:
        _heads.clear()
    _heads[head] = _Head(
        inputs,
        size,
        request.outputs,
        request.parameters,
        request.binary_output,
        request.id,
    )


def _decode_request(
    model: str, version: str, body: Buffer, header_length: str | None
) -> InferRequest:
    parts = _Body(body, header_length, "request")
    held = parts.json
    if "inputs" not in held:
        raise InvalidRequestError("request", "must have inputs, got none")
    parameters = _parameters(held, "request")
    inputs, shared = _tensors(held["inputs"], parts, "input")
    parts.finish()
    outputs = []
    for item in _objects(held.get("outputs") or [], "outputs"):
        name = _string(item, "name", "output")
        where = f"output {name!r:.80}"
        options = _parameters(item, where)
        binary = _flag(options, "binary_data", where)
        outputs.append(RequestedOutput(name, binary, region_slice(options, where)))
    return InferRequest(
        model=model,
        version=version,
        id=_string(held, "id", "request"),
        inputs=inputs,
        outputs=outputs,
        parameters=parameters,
        binary_output=bool(_flag(parameters, "binary_data_output", "request")),
        shared_inputs=shared,
    )


def _encode(
    head: dict[str, Any], key: str, tensors: list[tuple[Tensor, bool]]
) -> tuple[bytes, list[Buffer]]:
    listed: list[str] = []
    raw: list[Buffer] = []
    for tensor, binary in tensors:
        item: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.array.shape),
        }
        if tensor.slice is not None:
            item["parameters"] = tensor.slice.to_parameters()
            listed.append(_dump(item))
        elif binary:
            data = raw_from_tensor(tensor)
            item["parameters"] = {"binary_data_size": len(data)}
            raw.append(data)
            listed.append(_dump(item))
        else:
            # In chunks, as each holds Python's lock.
            text = ",".join(_dump(part)[1:-1] for part in lists_from_tensor(tensor))
            listed.append(f'{_dump(item)[:-1]},"data":[{text}]}}')
    start = f"{_dump(head)[:-1]}," if head else "{"
    return f'{start}"{key}":[{",".join(listed)}]}}'.encode(), raw


@functools.lru_cache(maxsize=256)
def _raw_head(
    model: str, version: str, outputs: tuple[tuple[str, str, tuple[int, ...], int], ...]
) -> bytes:
    """The JSON of an answer without an id whose tensors are all raw."""
    listed = [
        {
            "name": name,
            "datatype": datatype,
            "shape": shape,
            "parameters": {"binary_data_size": size},
        }
        for name, datatype, shape, size in outputs
    ]
    return dump_json({"model_name": model, "model_version": version, "outputs": listed})


def is_raw(response: InferResponse, request: InferRequest) -> bool:
    """Whether every output is answered as raw bytes."""
    if not request.outputs:
        return request.binary_output
    return all(request.wants_binary(held.name) for held in response.outputs)


def wants_raw(request: InferRequest) -> bool:
    """Whether ``request`` wants raw bytes, whichever outputs there are."""
    if not request.outputs:
        return request.binary_output
    return all(request.wants_binary(held.name) for held in request.outputs)


def encode_response(
    response: InferResponse, request: InferRequest
) -> tuple[bytes, list[Buffer]]:
    """The JSON that answers ``request``, and the raw tensors that follow it."""
    if not (response.id or request.is_shared) and is_raw(response, request):
        raw = [raw_from_tensor(held) for held in response.outputs]
        outputs = tuple(
            [
                (held.name, held.datatype, held.array.shape, len(data))
                for held, data in zip(response.outputs, raw, strict=True)
            ]
        )
        return _raw_head(response.model, response.version, outputs), raw
    head: dict[str, Any] = {
        "model_name": response.model,
        "model_version": response.version,
    }
    if response.id:
        head["id"] = response.id
    tensors = [(held, request.wants_binary(held.name)) for held in response.outputs]
    return _encode(head, "outputs", tensors)


def encode_request(request: InferRequest, binary: bool) -> tuple[bytes, int | None]:
    """The body that carries ``request`` and, if any is binary, its JSON's length."""
    head: dict[str, Any] = {}
    if request.id:
        head["id"] = request.id
    parameters = dict(request.parameters)
    if request.binary_output:
        parameters["binary_data_output"] = True
    if parameters:
        head["parameters"] = parameters
    if request.outputs:
        head["outputs"] = [_requested(output) for output in request.outputs]
    tensors = [(held, binary) for held in request.inputs]
    text, raw = _encode(head, "inputs", tensors)
    if not raw:
        return text, None
    return b"".join([text, *raw]), len(text)


def _requested(output: RequestedOutput) -> dict[str, Any]:
    if output.binary is None:
        return {"name": output.name}
    return {"name": output.name, "parameters": {"binary_data": output.binary}}


def decode_response(body: Buffer, header_length: str | None) -> InferResponse:
    """The answer in a body that came back from ``infer``."""
    parts = _Body(body, header_length, "response")
    held = parts.json
    outputs, shared = _tensors(held.get("outputs"), parts, "output")
    parts.finish()
    if shared:
        raise UnsupportedError(
            f"output {shared[0].name!r:.80}", "cannot be read from shared memory"
        )
    return InferResponse(
        model=_string(held, "model_name", "response"),
        version=_string(held, "model_version", "response"),
        outputs=outputs,
        id=_string(held, "id", "response"),
    )
