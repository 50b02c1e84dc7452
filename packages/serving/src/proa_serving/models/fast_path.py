"""Requests that differ from one that was answered in their numbers alone.

A client that runs a model again and again sends the same names, types and shapes. What
was found out and checked for the first request holds for the others; they need the
model's arrays, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from proa_serving.models.fit import fit_inputs
from proa_serving.models.served import ServedModel
from proa_serving.models.waiting import Answered, Deadlines, WaitingRun
from proa_serving.protocol.datatypes import DATATYPES
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import Array, InferRequest, InferResponse, Tensor
from proa_serving.protocol.tensors import Buffer
from proa_serving.schedule.job import Done, Job
from proa_serving.schedule.scheduler import BatchShape

if TYPE_CHECKING:
    from proa_serving.models.service import InferenceService


class FastPath:
    """Runs a model on the raw bytes of inputs, on the event loop or by a worker.

    Args:
        service: What answered the first request.
        model: The model of that.
        request: It. Its inputs were raw, and none was BYTES or in shared memory.
        places: Where the bytes of each input begin.
        protocol: What they came by.

    Raises:
        ServingError: If the request is not for the model.
    """

    __slots__ = (
        *("_changes", "_inputs", "_is_current", "_request"),
        *("_service", "_shape", "_size"),
        *("bounds", "deadlines", "model", "outputs", "protocol"),
    )

    def __init__(
        self,
        service: InferenceService,
        model: ServedModel,
        request: InferRequest,
        places: Sequence[int],
        protocol: str,
    ) -> None:
        self._service, self.model, self.protocol = service, model, protocol
        arrays = fit_inputs(request, model.inputs)
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
        self._shape = BatchShape.of(arrays)
        self._changes, self._is_current = -1, False  # when last looked up
        self._size = sum(array.nbytes for array in arrays.values())
        self.bounds, self.deadlines = model.bounds(request), Deadlines()

    @property
    def version(self) -> str:
        """The version of the model."""
        return self.model.version

    def is_current(self) -> bool:
        """Whether requests still go to the model."""
        changes = self._service.repository.changes
        if changes != self._changes:
            try:
                self._is_current = self._service.answers(self._request) is self.model
            except ServingError:
                self._is_current = False
            self._changes = changes
        return self._is_current

    def is_quick(self) -> bool:
        """Whether :meth:`run` is worth a call."""
        return self.model.is_quick(self._size)

    def run(self, data: Buffer) -> list[Array] | None:
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
        if not service.budget.has_room(len(data)) or not self.is_open():
            return None
        found = self.model.infer_at_once(self._arrays(data), self.protocol)
        return None if found is None else self.wanted(found)

    def run_later(self, data: Buffer, answered: Answered) -> WaitingRun | None:
        """Have a worker run the model.

        Args:
            data: Raw inputs, at their places, which are charged to the budget.
            answered: Takes all outputs of the model, or the error.

        Returns:
            None where the request must be served as others are, as in :meth:`run`.

        Raises:
            ServingError: If it is refused.
        """
        if not self.is_open():
            return None
        return self.model.infer_later(
            self._arrays(data),
            self._shape,
            self.bounds,
            self.deadlines,
            self.protocol,
            answered,
        )

    def wanted(self, found: Mapping[str, Array]) -> list[Array]:
        """Of all outputs those that the first request wanted."""
        return [found[held.name] for held in self.outputs]

    def job(self, data: Buffer, done: Done, arrived: float) -> Job:
        """What waits for a worker, of a request that arrived then."""
        expires = arrived + self.bounds.begin
        job = self.model.scheduler.job(
            self._arrays(data), done, expires, self.bounds.priority, self._shape
        )
        job.arrived = arrived
        return job

    def is_open(self) -> bool:
        """Whether a worker may run the model for a request."""
        service = self._service
        if service.draining or service.tracer is not None:
            return False
        if service.repository.changes == self._changes:
            return self._is_current
        return self.is_current()

    def _arrays(self, data: Buffer) -> dict[str, Array]:
        inputs = {}
        for name, shape, dtype, at, is_aligned in self._inputs:
            array: Array = np.ndarray(shape, dtype, data, at)
            inputs[name] = array if is_aligned else array.copy()
        return inputs


class RepeatedAnswers:
    """What the fast paths of both protocols share: what is encoded once for answers
    that differ in their numbers alone.

    Args:
        path: Runs the model.
        request: Like the one that was answered, all raw.
    """

    __slots__ = ("_dtypes", "_request", "path")

    def __init__(self, path: FastPath, request: InferRequest) -> None:
        self.path, self._request = path, request
        self._request.inputs = []  # They are not kept in memory.
        self._dtypes = [DATATYPES[held.datatype].dtype for held in path.outputs]

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
