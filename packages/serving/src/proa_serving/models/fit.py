"""Holds a request against the model it is for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proa_serving.backends.base import Model
from proa_serving.models.settings import ModelSettings
from proa_serving.protocol.errors import InvalidRequestError, ModelLoadError
from proa_serving.protocol.messages import InferRequest, Tensor, TensorSpec
from proa_serving.schedule.merge import Arrays


def fit_inputs(request: InferRequest, specs: Sequence[TensorSpec]) -> Arrays:
    """The arrays of ``request`` by name, in the model's order.

    Raises:
        InvalidRequestError: If an input is missing, unknown, given twice, or of
            another datatype or shape than the model's.
    """
    given: dict[str, Tensor] = {}
    for tensor in request.inputs:
        if tensor.name in given:
            raise InvalidRequestError(
                f"input {tensor.name!r:.80}", "expected once, got twice"
            )
        given[tensor.name] = tensor
    if len(given) != len(specs) or any(spec.name not in given for spec in specs):
        names = [spec.name for spec in specs]
        raise InvalidRequestError(
            f"model {request.model}",
            f"inputs must be {names}, got {list(given)!s:.200}",
        )
    arrays: Arrays = {}
    for spec in specs:
        tensor = given[spec.name]
        _fit(tensor, spec)
        arrays[spec.name] = tensor.array
    return arrays


def _fit(tensor: Tensor, spec: TensorSpec) -> None:
    if tensor.datatype != spec.datatype:
        raise InvalidRequestError(
            f"input {spec.name!r}",
            f"datatype must be {spec.datatype}, got {tensor.datatype}",
        )
    shape = tensor.array.shape
    if len(shape) != len(spec.shape) or any(
        want not in (-1, size) for want, size in zip(spec.shape, shape, strict=True)
    ):
        raise InvalidRequestError(
            f"input {spec.name!r}",
            f"shape must be {list(spec.shape)}, got {list(shape)}",
        )


def fit_outputs(request: InferRequest, specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The outputs to answer, in the requested order."""
    if not request.outputs:
        return list(specs)
    known = {spec.name: spec for spec in specs}
    wanted: dict[str, TensorSpec] = {}
    for output in request.outputs:
        if output.name not in known:
            raise InvalidRequestError(
                f"model {request.model}",
                f"outputs must be among {list(known)}, got {output.name!r:.80}",
            )
        if output.name in wanted:
            raise InvalidRequestError(
                f"output {output.name!r}", "expected once, got twice"
            )
        wanted[output.name] = known[output.name]
    return list(wanted.values())


def fit_specs(name: str, model: Model, settings: ModelSettings) -> None:
    """Hold the inputs and outputs of a configuration against the model's.

    Raises:
        ModelLoadError: If one is not the model's, or of another datatype or shape.
    """
    for what, said, held in (
        ("input", settings.inputs, model.inputs),
        ("output", settings.outputs, model.outputs),
    ):
        known = {spec.name: spec for spec in held}
        for spec in said:
            found = known.get(spec.name)
            if found is None:
                raise ModelLoadError(
                    f"model {name}",
                    f"{what} must be one of {list(known)}, got {spec.name!r:.80}",
                )
            if spec.datatype != found.datatype or not _shapes_agree(spec, found):
                raise ModelLoadError(
                    f"model {name}",
                    f"{what} {spec.name} is {found.datatype} {list(found.shape)} in "
                    f"the model, got {spec.datatype} {list(spec.shape)}",
                )


def _shapes_agree(one: TensorSpec, other: TensorSpec) -> bool:
    return len(one.shape) == len(other.shape) and all(
        -1 in (here, there) or here == there
        for here, there in zip(one.shape, other.shape, strict=True)
    )


def seconds_for(request: InferRequest, limit: float) -> float:
    """Seconds that ``request`` has: at most ``limit``, and what its client says."""
    seconds = limit
    # The protocol's scheduling extension: microseconds, in the request itself.
    timeout_us = request.parameters.get("timeout")
    if type(timeout_us) is int and timeout_us > 0:
        seconds = min(seconds, timeout_us / 1e6)
    if request.expires is not None:
        seconds = min(seconds, max(0.0, request.expires - time.monotonic()))
    return seconds
