"""Keeps the state of stateful models between the requests of a sequence.

A sequence is named by the request's parameter ``sequence_id``, begins with
``sequence_start`` and ends with ``sequence_end``, as in the protocol's sequence
extension. Its requests run one after another in the order of their arrival; those of
different sequences share batches.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from proa_serving.models.settings import SequenceSettings
from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelLoadError,
    QueueFullError,
)
from proa_serving.protocol.messages import Array, InferRequest, TensorSpec
from proa_serving.schedule.merge import Arrays

Run = Callable[[Arrays, InferRequest], Awaitable[Mapping[str, Array]]]


@dataclass(eq=False)
class _Sequence:
    states: Arrays = field(default_factory=dict)
    rows: int = 0  # of its requests
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.monotonic)


class SequenceTable:
    """The live sequences of one load of a model; used on the event loop alone.

    Args:
        name: The model's, for messages.
        settings: What is kept, and for how long.
        inputs: The model's.
        outputs: The model's.

    Raises:
        ModelLoadError: If the settings do not fit the model.
    """

    def __init__(
        self,
        name: str,
        settings: SequenceSettings,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> None:
        self._name, self._settings = name, settings
        by_name = {spec.name: spec for spec in inputs}
        given = {spec.name: spec for spec in outputs}
        for state in settings.states:
            into, out = by_name.get(state.input), given.get(state.output)
            if into is None or out is None or into.datatype != out.datatype:
                raise ModelLoadError(
                    f"model {name}",
                    f"state must be an input and an output of one datatype, "
                    f"got {state.input!r:.80} and {state.output!r:.80}",
                )
            if -1 in into.shape[1:]:
                raise ModelLoadError(
                    f"model {name}",
                    f"state {state.input} must have known sizes, got {into.shape}",
                )
        for control in settings.controls:
            if control.input not in by_name:
                raise ModelLoadError(
                    f"model {name}",
                    f"control must be an input, got {control.input!r:.80}",
                )
        self._states = [
            (by_name[state.input], state.output) for state in settings.states
        ]
        self._controls = [
            (by_name[control.input], control.kind) for control in settings.controls
        ]
        self._live: OrderedDict[int | str, _Sequence] = OrderedDict()
        hidden = {state.input for state in settings.states}
        hidden |= {control.input for control in settings.controls}
        self.inputs = tuple(spec for spec in inputs if spec.name not in hidden)
        hidden = {state.output for state in settings.states}
        self.outputs = tuple(spec for spec in outputs if spec.name not in hidden)

    async def run(
        self, run: Run, arrays: Arrays, request: InferRequest
    ) -> Mapping[str, Array]:
        """The outputs of a request, run with the state of its sequence by ``run``.

        Raises:
            InvalidRequestError: If it has no sequence, or one that is not live and
                does not start here.
            QueueFullError: If there are too many sequences.
        """
        id, start, end = self._read(request)
        held = self._find(id, start)
        async with held.lock:
            rows = next((each.shape[0] for each in arrays.values() if each.ndim), 1)
            if held.rows not in (0, rows):
                raise InvalidRequestError(
                    f"model {self._name}",
                    f"requests of a sequence must have equal batches, "
                    f"got {held.rows} and {rows}",
                )
            given = dict(arrays)
            for spec, _ in self._states:
                state = held.states.get(spec.name)
                given[spec.name] = _zeros(spec, rows) if state is None else state
            for spec, kind in self._controls:
                value = {"start": start, "end": end, "ready": True, "id": id}[kind]
                given[spec.name] = _filled(spec, rows, value)
            outputs = dict(await run(given, request))
            held.rows = rows
            held.states = {
                spec.name: outputs.pop(output) for spec, output in self._states
            }
            held.used = time.monotonic()
            if end and self._live.get(id) is held:
                del self._live[id]
        return outputs

    def _read(self, request: InferRequest) -> tuple[int | str, bool, bool]:
        id = request.parameters.get("sequence_id", 0)
        if isinstance(id, bool) or not isinstance(id, int | str) or not id:
            raise InvalidRequestError(
                f"model {self._name}",
                f"sequence_id must be a number that is not 0, or a string, "
                f"got {id!r:.40}",
            )
        if isinstance(id, str) and len(id) > 128:
            raise InvalidRequestError(
                f"model {self._name}", "sequence_id must have at most 128 characters"
            )
        flags = []
        for name in ("sequence_start", "sequence_end"):
            flag = request.parameters.get(name, False)
            if not isinstance(flag, bool):
                raise InvalidRequestError(
                    f"model {self._name}", f"{name} must be a bool, got {flag!r:.40}"
                )
            flags.append(flag)
        return id, flags[0], flags[1]

    def _find(self, id: int | str, start: bool) -> _Sequence:
        now = time.monotonic()
        # From the one not used for longest; those that run are in use.
        for known, each in list(self._live.items())[:8]:
            if (
                now - each.used > self._settings.idle_us / 1e6
                and not each.lock.locked()
            ):
                del self._live[known]
        held = self._live.get(id)
        if start:
            if held is None and len(self._live) >= self._settings.max:
                raise QueueFullError(
                    f"model {self._name}",
                    f"at most {self._settings.max} sequences may be live",
                )
            held = self._live[id] = _Sequence()
        elif held is None:
            raise InvalidRequestError(
                f"model {self._name}",
                f"sequence {id!r:.40} must begin with sequence_start; it is not "
                "known here, or was idle for too long",
            )
        self._live.move_to_end(id)
        return held


def _shape(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    return tuple(
        rows if at == 0 and size == -1 else size for at, size in enumerate(spec.shape)
    )


def _zeros(spec: TensorSpec, rows: int) -> Array:
    row = datatype_of(spec.datatype, f"input {spec.name!r}")
    found = np.zeros(_shape(spec, rows), row.dtype)
    if spec.datatype == "BYTES":
        found[...] = b""
    return found


def _filled(spec: TensorSpec, rows: int, value: int | str | bool) -> Array:
    row = datatype_of(spec.datatype, f"input {spec.name!r}")
    shape = tuple(1 if size == -1 else size for size in _shape(spec, rows))
    if spec.datatype == "BYTES":
        found = np.empty(shape, object)
        found[...] = str(value).encode()
        return found
    if isinstance(value, str):
        raise InvalidRequestError(
            "request", f"sequence_id must be a number for {spec.name}, got a string"
        )
    try:
        return np.full(shape, value, row.dtype)
    except OverflowError as error:
        raise InvalidRequestError(
            "request", f"sequence_id must fit {spec.datatype}, got {value}"
        ) from error
