"""Requests and answers as the protobuf messages of the gRPC service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import InvalidRequestError, UnsupportedError
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    Parameter,
    RequestedOutput,
    SharedInput,
    Tensor,
    TensorSpec,
)
from proa_serving.protocol.rest import region_slice
from proa_serving.protocol.tensors import (
    check_shape,
    lists_from_tensor,
    raw_from_tensor,
    tensor_from_list,
    tensor_from_raw,
)

SERVICE = "inference.GRPCInferenceService"
STREAM_INFER = "ModelStreamInfer"
# The methods of one request and one answer, and their messages.
METHODS: dict[str, tuple[Any, Any]] = {
    name: (getattr(pb, f"{name}Request"), getattr(pb, f"{name}Response"))
    for name in pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    if name != STREAM_INFER
}
_INTEGER = range(-(2**63), 2**63)


def _read_parameters(held: Mapping[str, Any]) -> dict[str, Parameter]:
    found = {}
    for key, value in held.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:
            found[key] = getattr(value, choice)
    return found


def _write_parameters(held: Any, values: Mapping[str, Parameter]) -> None:
    for key, value in values.items():
        if isinstance(value, bool):
            held[key].bool_param = value
        elif isinstance(value, int):
            if value not in _INTEGER:
                raise InvalidRequestError("parameter", f"{key!r} must fit 64 bits")
            held[key].int64_param = value
        elif isinstance(value, float):
            held[key].double_param = value
        else:
            held[key].string_param = str(value)


def _read_contents(
    held: Any, name: str, datatype: str, shape: tuple[int, ...], where: str
) -> Tensor:
    row = datatype_of(datatype, where)
    if row.contents is None:
        raise InvalidRequestError(where, f"{datatype} must be sent as raw contents")
    filled = [field.name for field, _ in held.ListFields()]
    if filled not in ([], [row.contents]):
        raise InvalidRequestError(
            where, f"{datatype} must be sent in {row.contents}, got {', '.join(filled)}"
        )
    items = list(getattr(held, row.contents))
    if datatype == "BYTES":
        # Any bytes may be here, so they are length-prefixed rather than decoded.
        packed = b"".join(len(item).to_bytes(4, "little") + item for item in items)
        return tensor_from_raw(name, datatype, shape, packed)
    return tensor_from_list(name, datatype, shape, items)


def _read_tensors(
    held: Iterable[Any], raw: Any, what: str
) -> tuple[list[Tensor], list[SharedInput]]:
    """The tensors, and those in shared memory, which have no raw contents."""
    tensors: list[Tensor] = []
    shared: list[SharedInput] = []
    items = []
    for item in held:
        where = f"{what} {item.name!r:.80}"
        if not item.name:
            raise InvalidRequestError(what, "each tensor must have a name")
        parameters = _read_parameters(item.parameters)
        found = region_slice(parameters, where)
        if found is None:
            items.append((item, where))
            continue
        if item.HasField("contents"):
            raise InvalidRequestError(
                where, "must have contents or shared memory, got both"
            )
        shape = check_shape(list(item.shape), where)
        shared.append(SharedInput(item.name, item.datatype, shape, found))
    if raw and len(raw) != len(items):
        raise InvalidRequestError(
            "request",
            f"expected raw contents for each {what}, got {len(raw)} for {len(items)}",
        )
    for at, (item, where) in enumerate(items):
        shape = check_shape(list(item.shape), where)
        if not raw:
            tensors.append(
                _read_contents(item.contents, item.name, item.datatype, shape, where)
            )
            continue
        if item.HasField("contents"):
            raise InvalidRequestError(
                where, "must have contents or raw contents, got both"
            )
        tensors.append(tensor_from_raw(item.name, item.datatype, shape, raw[at]))
    return tensors, shared


def decode_request(message: pb.ModelInferRequest, raw: Any) -> InferRequest:
    """The inference request that ``message`` carries.

    The answer is raw if the inputs were, unless ``binary_data_output`` says so.

    Args:
        message: The request; its own raw contents are not looked at.
        raw: The bytes of each input, or none.
    """
    parameters = _read_parameters(message.parameters)
    outputs = []
    for output in message.outputs:
        options = _read_parameters(output.parameters)
        found = region_slice(options, f"output {output.name!r:.80}")
        outputs.append(RequestedOutput(output.name, slice=found))
    inputs, shared = _read_tensors(message.inputs, raw, "input")
    wanted = parameters.get("binary_data_output", bool(raw or shared))
    return InferRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        inputs=inputs,
        outputs=outputs,
        parameters=parameters,
        binary_output=bool(wanted),
        shared_inputs=shared,
    )


def _write_tensors(message: Any, raw: Any, tensors: list[Tensor], binary: bool) -> None:
    for tensor in tensors:
        item = message.add(name=tensor.name, datatype=tensor.datatype)
        item.shape.extend(tensor.array.shape)
        if tensor.slice is not None:
            _write_parameters(item.parameters, tensor.slice.to_parameters())
            if binary:  # Clients find raw contents by the output's place.
                raw.append(b"")
            continue
        if binary:
            raw.append(bytes(raw_from_tensor(tensor)))
            continue
        row = datatype_of(tensor.datatype, f"tensor {tensor.name!r}")
        if row.contents is None:
            raise InvalidRequestError(
                f"tensor {tensor.name!r}", f"{row.name} must be sent as raw contents"
            )
        if row.name == "BYTES":
            items = [
                held if isinstance(held, bytes) else str(held).encode()
                for held in tensor.array.ravel()
            ]
        else:
            items = [item for part in lists_from_tensor(tensor) for item in part]
        getattr(item.contents, row.contents).extend(items)


def encode_response(
    response: InferResponse, request: InferRequest
) -> pb.ModelInferResponse:
    """The message that answers ``request``."""
    message = pb.ModelInferResponse(
        model_name=response.model, model_version=response.version, id=response.id
    )
    binary = is_raw(response, request)
    _write_tensors(
        message.outputs, message.raw_output_contents, response.outputs, binary
    )
    return message


def is_raw(response: InferResponse, request: InferRequest) -> bool:
    """Whether an answer has raw tensors: all outputs or none."""
    # FP16 and BF16 exist only raw.
    return request.binary_output or any(
        datatype_of(held.datatype, "response").contents is None
        for held in response.outputs
    )


def encode_request(request: InferRequest, binary: bool) -> pb.ModelInferRequest:
    """The message that carries ``request``."""
    message = pb.ModelInferRequest(
        model_name=request.model, model_version=request.version, id=request.id
    )
    parameters = dict(request.parameters)
    if request.binary_output != binary:
        parameters["binary_data_output"] = request.binary_output
    _write_parameters(message.parameters, parameters)
    for output in request.outputs:
        message.outputs.add(name=output.name)
    _write_tensors(message.inputs, message.raw_input_contents, request.inputs, binary)
    return message


def decode_response(message: pb.ModelInferResponse) -> InferResponse:
    """The answer that ``message`` carries."""
    outputs, shared = _read_tensors(
        message.outputs, message.raw_output_contents, "output"
    )
    if shared:
        raise UnsupportedError(
            f"output {shared[0].name!r:.80}", "cannot be read from shared memory"
        )
    return InferResponse(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        outputs=outputs,
    )


def encode_model_metadata(metadata: ModelMetadata) -> pb.ModelMetadataResponse:
    """The message that describes a model."""
    message = pb.ModelMetadataResponse(
        name=metadata.name, versions=metadata.versions, platform=metadata.platform
    )
    for specs, held in (
        (metadata.inputs, message.inputs),
        (metadata.outputs, message.outputs),
    ):
        for spec in specs:
            held.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)
    return message


def decode_model_metadata(message: pb.ModelMetadataResponse) -> ModelMetadata:
    """The description of a model that ``message`` carries."""
    inputs, outputs = (
        tuple(TensorSpec(spec.name, spec.datatype, tuple(spec.shape)) for spec in held)
        for held in (message.inputs, message.outputs)
    )
    return ModelMetadata(
        message.name, tuple(message.versions), message.platform, inputs, outputs
    )


def encode_model_config(held: Mapping[str, Any]) -> pb.ModelConfigResponse:
    """The message that holds a model's configuration, as REST has it."""
    message = pb.ModelConfigResponse()
    _parse(held, message.config)
    return message


def encode_statistics(held: list[dict[str, Any]]) -> pb.ModelStatisticsResponse:
    """The message that holds statistics, as REST has them."""
    message = pb.ModelStatisticsResponse()
    _parse({"model_stats": held}, message)
    return message


def _parse(held: Mapping[str, Any], message: Any) -> None:
    """Fill ``message`` from JSON."""
    # Imported here, as it is a tenth of a server's start, and rarely needed.
    from google.protobuf import json_format

    json_format.ParseDict(dict(held), message)
