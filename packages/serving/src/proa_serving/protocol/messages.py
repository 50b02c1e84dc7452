"""Requests and answers as Python holds them, whichever way they travelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from proa_serving.protocol.datatypes import name_of_dtype

Array = npt.NDArray[Any]
Parameter = bool | int | float | str
Parameters = Mapping[str, Parameter]
# Gets the name, begin and end, of ``time.monotonic``, of each stage of a request.
Watch = Callable[[str, float, float], None]
_NONE: Parameters = {}
_NO_HEADERS: Mapping[bytes, bytes] = {}


@dataclass(frozen=True)
class TensorSpec:
    """What a model takes or gives under one name; -1 in a shape is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "datatype": self.datatype,
            "shape": list(self.shape),
        }

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> TensorSpec:
        return cls(held["name"], held["datatype"], tuple(held["shape"]))


@dataclass(frozen=True, slots=True)
class RegionSlice:
    """Bytes of a registered region of shared memory."""

    region: str
    offset: int
    byte_size: int

    def to_parameters(self) -> dict[str, Parameter]:
        """As a tensor's parameters say it."""
        return {
            "shared_memory_region": self.region,
            "shared_memory_offset": self.offset,
            "shared_memory_byte_size": self.byte_size,
        }


@dataclass(frozen=True, slots=True)
class SharedInput:
    """An input whose elements are in shared memory."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    slice: RegionSlice


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array. ``datatype`` says what the bits mean, ``array`` holds them.

    ``slice`` is where an output was put, if that is in shared memory.
    """

    name: str
    datatype: str
    array: Array
    slice: RegionSlice | None = None

    @classmethod
    def of(cls, name: str, value: npt.ArrayLike) -> Tensor:
        """The tensor that holds ``value``, of the datatype its dtype says."""
        array = np.asarray(value)
        return cls(name, name_of_dtype(array.dtype), array)


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the client wants; ``binary`` is None where it did not say.

    ``slice`` is where it is to be put, if that is in shared memory.
    """

    name: str
    binary: bool | None = None
    slice: RegionSlice | None = None


@dataclass(slots=True)
class InferRequest:
    """Run a model once. No ``outputs`` requests all of them.

    ``expires`` is the time, of ``time.monotonic``, when the client stops waiting.
    ``headers`` are those of its HTTP or gRPC request, in lower case. ``watch``
    observes its stages, where it is traced; ``arrived`` is when its decoding began,
    and ``client`` who sent it.
    """

    model: str
    inputs: list[Tensor]
    version: str = ""
    id: str = ""
    outputs: list[RequestedOutput] = field(default_factory=list)
    parameters: Parameters = field(default_factory=lambda: _NONE)
    binary_output: bool = False
    expires: float | None = None
    headers: Mapping[bytes, bytes] = field(default_factory=lambda: _NO_HEADERS)
    watch: Watch | None = None
    arrived: float = 0.0
    client: str = ""
    shared_inputs: list[SharedInput] = field(default_factory=list)

    def hint(self, name: str) -> str:
        """What the parameter or else the header ``name`` says; empty if neither."""
        value = self.parameters.get(name)
        if value is not None:
            return str(value)
        held = self.headers.get(name.encode())
        return "" if held is None else held.decode("latin-1")

    @property
    def is_shared(self) -> bool:
        """Whether an input or an output is in shared memory."""
        if self.shared_inputs:
            return True
        return any(output.slice is not None for output in self.outputs)

    def wants_binary(self, name: str) -> bool:
        """Whether output ``name`` should be answered as raw bytes."""
        for output in self.outputs:
            if output.name == name and output.binary is not None:
                return output.binary
        return self.binary_output


@dataclass(slots=True)
class InferResponse:
    """What the model gave."""

    model: str
    version: str
    outputs: list[Tensor]
    id: str = ""

    def __getitem__(self, name: str) -> Array:
        for tensor in self.outputs:
            if tensor.name == name:
                return tensor.array
        raise KeyError(name)

    def as_dict(self) -> dict[str, Array]:
        return {tensor.name: tensor.array for tensor in self.outputs}


@dataclass(frozen=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True)
class ModelMetadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class IndexEntry:
    """A line of the repository's index; ``state`` is READY or UNAVAILABLE."""

    name: str
    version: str
    state: str
    reason: str
