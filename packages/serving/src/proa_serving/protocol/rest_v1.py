"""The V1 protocol: what KServe and TensorFlow Serving take at ``:predict``.

A body has rows, ``{"instances": [...]}``, which are stacked along dimension 0 and
answered as ``{"predictions": [...]}``; or columns, ``{"inputs": ...}``, which are whole
tensors and answered as ``{"outputs": ...}``. Where a model has one input or output its
value is alone, otherwise it is an object by name. Bytes are strings, or
``{"b64": "..."}``.

Sources: KServe's data plane V1 and the REST API of TensorFlow Serving.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from proa_serving.protocol.errors import (
    InvalidRequestError,
    ServingError,
    UnsupportedError,
)
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    Tensor,
    TensorSpec,
)
from proa_serving.protocol.rest import dump_json, parse_json
from proa_serving.protocol.tensors import (
    MAX_DIMS,
    Buffer,
    check_shape,
    lists_from_tensor,
    tensor_from_list,
)

SIGNATURE = "serving_default"
_DTYPES = {
    "BOOL": "DT_BOOL",
    "FP16": "DT_HALF",
    "BF16": "DT_BFLOAT16",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BYTES": "DT_STRING",
}


def decode_predict(
    model: ModelMetadata, version: str, body: Buffer
) -> tuple[InferRequest, bool]:
    """The request in a body that was posted to ``:predict``, and whether it has rows.

    Args:
        model: What the model takes; JSON of this protocol names no datatypes.
        version: The version that the path names; empty where it names none.
        body: A JSON object with ``instances`` or ``inputs``.

    Raises:
        InvalidRequestError: If it is not such, or does not fit the model.
        UnsupportedError: If it names another signature than ``serving_default``.
    """
    held = parse_json(body, "request")
    signature = held.get("signature_name", "")
    if signature not in ("", SIGNATURE):
        raise UnsupportedError(
            "request", f"signature_name must be {SIGNATURE}, got {signature!r:.80}"
        )
    if ("instances" in held) == ("inputs" in held):
        raise InvalidRequestError("request", "must have either instances or inputs")
    by_row = "instances" in held
    columns: Mapping[str, Any]
    if by_row:
        columns = _columns(held["instances"], model.inputs)
    else:
        columns = _named(held["inputs"], model.inputs)
    inputs = [_tensor(spec, columns[spec.name]) for spec in model.inputs]
    return InferRequest(model=model.name, version=version, inputs=inputs), by_row


def _columns(rows: Any, specs: Sequence[TensorSpec]) -> Mapping[str, list[Any]]:
    """The values of each input, row after row."""
    rows = _list(rows)
    if not isinstance(rows, list) or not rows:
        raise InvalidRequestError(
            "request", f"instances must be a list of one or more, got {rows!r:.60}"
        )
    columns: dict[str, list[Any]] = {spec.name: [] for spec in specs}
    for row in rows:
        for name, value in _named(row, specs).items():
            columns[name].append(value)
    return columns


def _named(value: Any, specs: Sequence[TensorSpec]) -> Mapping[str, Any]:
    """``value`` by the names of the inputs, of which a single one may be left out."""
    names = [spec.name for spec in specs]
    if isinstance(value, dict) and not (len(names) == 1 and value.keys() == {"b64"}):
        if value.keys() != set(names):
            raise InvalidRequestError(
                "request", f"inputs must be {names}, got {list(value)!r:.120}"
            )
        return value
    if len(names) != 1:
        raise InvalidRequestError(
            "request", f"inputs must be an object of {names}, got {value!r:.60}"
        )
    return {names[0]: value}


def _list(value: Any) -> Any:
    """Long lists of numbers are parsed to arrays."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _tensor(spec: TensorSpec, value: Any) -> Tensor:
    where = f"input {spec.name!r:.80}"
    if spec.datatype != "BYTES":
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InvalidRequestError(where, "must be of a regular shape") from error
        shape = check_shape(array.shape, where)
        return tensor_from_list(spec.name, spec.datatype, shape, array.reshape(-1))
    held = _strings(_list(value), where, MAX_DIMS)
    array = np.empty(_shape_of(held), object)
    flat: list[bytes] = []
    _flatten(held, array.shape, flat, where)
    array.reshape(-1)[:] = flat
    return Tensor(spec.name, spec.datatype, array)


def _strings(value: Any, where: str, depth: int) -> Any:
    """Nested lists with each string, or object of ``b64``, as bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list) and depth:
        return [_strings(item, where, depth - 1) for item in value]
    if isinstance(value, dict) and value.keys() == {"b64"}:
        text = value["b64"]
        try:
            return base64.b64decode(text, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise InvalidRequestError(
                where, f"b64 must be base64, got {text!r:.40}"
            ) from error
    raise InvalidRequestError(where, f"must be strings or b64, got {value!r:.40}")


def _shape_of(value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value: Any, shape: tuple[int, ...], out: list[bytes], where: str) -> None:
    regular = isinstance(value, list) and len(value) == shape[0] if shape else True
    if not regular or (not shape and not isinstance(value, bytes)):
        raise InvalidRequestError(where, "must be of a regular shape")
    if not shape:
        out.append(value)
        return
    for item in value:
        _flatten(item, shape[1:], out, where)


def encode_predictions(response: InferResponse, *, by_row: bool) -> bytes:
    """The answer to :func:`decode_predict`'s request.

    Raises:
        InvalidRequestError: If an output's datatype is none of JSON's, or, for rows, an
            output has no rows, or not as many as the others.
    """
    columns = {held.name: _values(held) for held in response.outputs}
    if not by_row:
        outputs: Any = columns
        if len(columns) == 1:
            (outputs,) = columns.values()
        return dump_json({"outputs": outputs})
    counts = {
        len(values) if isinstance(values, list) else -1 for values in columns.values()
    }
    if len(counts) != 1 or -1 in counts:
        raise InvalidRequestError(
            f"model {response.model}",
            "must be sent inputs rather than instances, as its outputs are not rows",
        )
    if len(columns) == 1:
        (rows,) = columns.values()
    else:
        names = list(columns)
        rows = [
            dict(zip(names, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    return dump_json({"predictions": rows})


def _values(tensor: Tensor) -> Any:
    """Nested lists; bytes that are not text become ``b64``."""
    if tensor.datatype != "BYTES":
        next(lists_from_tensor(tensor), None)  # says so where JSON cannot hold it
        return tensor.array.tolist()
    texts = np.empty(tensor.array.shape, object)
    texts.reshape(-1)[:] = [_text(item) for item in tensor.array.ravel()]
    return texts.tolist()


def _text(item: Any) -> Any:
    if not isinstance(item, bytes):
        return str(item)
    try:
        return item.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(item).decode()}


def model_status(
    name: str, versions: Sequence[str], problem: ServingError | None
) -> dict[str, Any]:
    """The state of a model, as both KServe and TensorFlow Serving give it."""
    state = "AVAILABLE" if problem is None else "END"
    status = {
        "error_code": "OK" if problem is None else "UNAVAILABLE",
        "error_message": "" if problem is None else str(problem),
    }
    return {
        "name": name,
        "ready": problem is None,
        "model_version_status": [
            {"version": version, "state": state, "status": status}
            for version in versions
        ],
    }


def signature_metadata(model: ModelMetadata, version: str) -> dict[str, Any]:
    """What a model takes and gives, as TensorFlow Serving describes it."""
    signature = {
        "inputs": {spec.name: _signature_tensor(spec) for spec in model.inputs},
        "outputs": {spec.name: _signature_tensor(spec) for spec in model.outputs},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
    }


def _signature_tensor(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": _DTYPES.get(spec.datatype, f"DT_{spec.datatype}"),
        "tensor_shape": {
            "dim": [{"size": str(size), "name": ""} for size in spec.shape],
            "unknown_rank": False,
        },
        "name": spec.name,
    }
