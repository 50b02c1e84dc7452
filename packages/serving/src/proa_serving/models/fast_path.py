"""Requests that differ from one that was answered in their numbers alone.

A client that runs a model again and again sends the same names, types and shapes. What
was found out and checked for the first request holds for the others; they need the
model's arrays, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from proa_serving.models.served import ServedModel
from proa_serving.protocol.datatypes import DATATYPES
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import Array, InferRequest, InferResponse, Tensor

if TYPE_CHECKING:
    from proa_serving.models.service import InferenceService


class FastPath:
    """Runs a model on the raw bytes of inputs, where it runs on the event loop.

    Args:
        service: What answered the first request.
        model: The model of that.
        request: It. Its inputs were raw, and none was BYTES or in shared memory.
        places: Where the bytes of each input begin.
        protocol: What they came by.
    """

    __slots__ = ("_inputs", "_model", "_protocol", "_request", "_service", "outputs")

    def __init__(
        self,
        service: InferenceService,
        model: ServedModel,
        request: InferRequest,
        places: Sequence[int],
        protocol: str,
    ) -> None:
        self._service, self._model, self._protocol = service, model, protocol
        self._request = InferRequest(request.model, [], request.version)
        given = {
            held.name: (held.array.shape, held.array.dtype, at)
            for held, at in zip(request.inputs, places, strict=True)
        }
        # In the model's order, as NumPy makes arrays of it.
        self._inputs = [
            (spec.name, *given[spec.name], given[spec.name][2] % 16 == 0)
            for spec in model.inputs
        ]
        self.outputs = model.wanted(request)

    @property
    def version(self) -> str:
        """The version of the model."""
        return self._model.version

    def is_current(self) -> bool:
        """Whether requests still go to the model."""
        try:
            return self._service.answers(self._request) is self._model
        except ServingError:
            return False

    def run(self, data: bytes | memoryview) -> list[Array] | None:
        """The outputs, as the first request wanted them.

        Args:
            data: Raw inputs, at their places.

        Returns:
            None where the request must be served as others are, as the model is busy,
            was replaced, or the server stops, traces or has no memory left.

        Raises:
            ModelFailedError: If the model raised.
        """
        service = self._service
        if (
            service.draining
            or service.tracer is not None
            or not service.budget.has_room(len(data))
            or not self.is_current()
        ):
            return None
        inputs = {}
        for name, shape, dtype, at, is_aligned in self._inputs:
            array: Array = np.ndarray(shape, dtype, data, at)
            inputs[name] = array if is_aligned else array.copy()
        found = self._model.infer_at_once(inputs, self._protocol)
        if found is None:
            return None
        return [found[held.name] for held in self.outputs]


class RepeatedAnswers:
    """What the fast paths of both protocols share: what is encoded once for answers
    that differ in their numbers alone.

    Args:
        path: Runs the model.
        request: Like the one that was answered, all raw.
    """

    __slots__ = ("_dtypes", "_known_shapes", "_request", "path")

    def __init__(self, path: FastPath, request: InferRequest) -> None:
        self.path, self._request = path, request
        self._request.inputs = []  # They are not kept in memory.
        self._dtypes = [DATATYPES[held.datatype].dtype for held in path.outputs]
        self._known_shapes: list[tuple[int, ...]] | None = None

    def _response(self, arrays: Sequence[Array], id: str = "") -> InferResponse:
        outputs = [
            Tensor(held.name, held.datatype, array)
            for held, array in zip(self.path.outputs, arrays, strict=True)
        ]
        return InferResponse(self._request.model, self.path.version, outputs, id)

    def _raw_shapes(self, arrays: Sequence[Array]) -> list[tuple[int, ...]] | None:
        """Shapes of outputs; None where one must be converted or copied first."""
        found = []
        for array, dtype in zip(arrays, self._dtypes, strict=True):
            if array.dtype is not dtype or not array.flags.c_contiguous:
                return None
            found.append(array.shape)
        return found
