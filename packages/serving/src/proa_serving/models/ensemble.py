"""Runs a graph of models that a configuration describes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from proa_serving.models.composite import Composite
from proa_serving.models.served import Context
from proa_serving.models.settings import ModelSettings, Step
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.schedule.merge import Arrays


class Ensemble(Composite):
    """Runs each step as soon as its tensors are there, side by side where they can.

    A step is skipped where its condition says so, or where a tensor that it needs is
    not given because other steps were skipped. Of several steps that give one tensor,
    the first of the list that was not skipped counts; so branches join again.

    Raises:
        ModelLoadError: If a step needs what nothing gives, or what itself gives.
    """

    platform = "ensemble"

    def __init__(
        self, name: str, version: str, settings: ModelSettings, context: Context
    ) -> None:
        super().__init__(
            name, version, settings, context, settings.inputs, settings.outputs
        )
        self._steps = settings.steps
        self._givers = _givers(settings.steps)
        _check(name, settings, self._givers)

    async def run(self, arrays: Arrays, request: InferRequest) -> dict[str, Tensor]:
        known: dict[str, Tensor | None] = {
            spec.name: Tensor(spec.name, spec.datatype, arrays[spec.name])
            for spec in self.inputs
        }
        given: dict[int, dict[str, Tensor]] = {}  # by step that ended or was skipped
        running: dict[asyncio.Task[dict[str, Tensor]], int] = {}
        waiting = list(range(len(self._steps)))
        try:
            while waiting or running:
                started = self._start(waiting, known, given, running, request)
                if not running:
                    if not started:
                        break
                    continue
                if started:  # A step that was skipped may decide others.
                    continue
                done, _ = await asyncio.wait(
                    running, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    at = running.pop(task)
                    given[at] = task.result()
                    self._resolve(at, known, given)
        finally:
            for task in running:
                task.cancel()
        return {name: held for name, held in known.items() if held is not None}

    def _start(
        self,
        waiting: list[int],
        known: dict[str, Tensor | None],
        given: dict[int, dict[str, Tensor]],
        running: dict[asyncio.Task[dict[str, Tensor]], int],
        request: InferRequest,
    ) -> bool:
        """Start or skip the steps whose tensors are decided; whether any was."""
        ready = [
            at
            for at in waiting
            if all(name in known for name in _needs(self._steps[at]))
        ]
        for at in ready:
            waiting.remove(at)
            step = self._steps[at]
            if _skipped(step, known):
                given[at] = {}
                self._resolve(at, known, given)
                continue
            inputs = []
            for inner, outer in step.inputs.items():
                held = known[outer]
                assert held is not None
                inputs.append(Tensor(inner, held.datatype, held.array))
            running[asyncio.create_task(self._call(step, inputs, request))] = at
        return bool(ready)

    async def _call(
        self, step: Step, inputs: list[Tensor], request: InferRequest
    ) -> dict[str, Tensor]:
        answer = await self.call(request, step.model, step.version, inputs)
        found = {}
        for tensor in answer.outputs:
            outer = step.outputs.get(tensor.name)
            if outer is not None:
                found[outer] = tensor
        return found

    def _resolve(
        self,
        at: int,
        known: dict[str, Tensor | None],
        given: dict[int, dict[str, Tensor]],
    ) -> None:
        """Decide the tensors all of whose steps have ended."""
        for name in self._steps[at].outputs.values():
            givers = self._givers[name]
            if all(giver in given for giver in givers):
                found = (given[giver].get(name) for giver in givers)
                known[name] = next((held for held in found if held is not None), None)


def _givers(steps: Sequence[Step]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, step in enumerate(steps):
        for name in step.outputs.values():
            found.setdefault(name, []).append(at)
    return found


def _needs(step: Step) -> list[str]:
    conditions = [name for name in (step.when, step.unless) if name]
    return [*step.inputs.values(), *conditions]


def _skipped(step: Step, known: dict[str, Tensor | None]) -> bool:
    if any(known[name] is None for name in _needs(step)):
        return True
    when, unless = known.get(step.when), known.get(step.unless)
    if when is not None and not np.any(when.array):
        return True
    return unless is not None and bool(np.any(unless.array))


def _check(name: str, settings: ModelSettings, givers: dict[str, list[int]]) -> None:
    inputs = {spec.name for spec in settings.inputs}
    where = f"model {name}"
    for held in settings.outputs:
        if held.name not in givers and held.name not in inputs:
            raise ModelLoadError(where, f"a step must give output {held.name!r:.80}")
    if both := inputs & givers.keys():
        raise ModelLoadError(where, f"no step may give its inputs {sorted(both)}")
    decided, left = set(inputs), list(settings.steps)
    for step in left:
        if step.model == name:
            raise ModelLoadError(where, "a step must be another model")
        for need in _needs(step):
            if need not in inputs and need not in givers:
                raise ModelLoadError(
                    where, f"a step needs {need!r:.80}, which nothing gives"
                )
    while left:
        ready = [step for step in left if decided.issuperset(_needs(step))]
        if not ready:
            models = ", ".join(step.model for step in left)
            raise ModelLoadError(where, f"steps must not wait for each other: {models}")
        left = [step for step in left if step not in ready]
        pending = {held for step in left for held in step.outputs.values()}
        for step in ready:
            decided |= set(step.outputs.values()) - pending
