"""How a `Model` runs its network in static mode: programs that an Executor runs.

The network was made in static mode, so that its parameters are Variables of a program.
The step is recorded there; what evaluates and predicts is a clone for tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.hapi.precision import Precision
from proa.hapi.runner import Results, listed
from proa.ir.record import at_once
from proa.nn.layer import Layer
from proa.static.amp import decorate
from proa.static.amp.lists import AutoMixedPrecisionLists
from proa.static.clone import stepping_on
from proa.static.executor import Executor
from proa.static.inference_model import save_inference_model
from proa.static.mode import (
    default_main_program,
    default_startup_program,
    program_guard,
)
from proa.static.program import Program
from proa.static.scope import global_scope
from proa.static.state import data
from proa.static.variable import Variable


class StaticRunner:
    """The `Runner` of static mode.

    Args:
        network: The Layer.
        inputs, labels: InputSpecs of what it is fed.

    Raises:
        InvalidArgumentError: If there are no inputs.
    """

    def __init__(self, network: Layer, inputs: list[Any], labels: list[Any]) -> None:
        if not inputs:
            raise InvalidArgumentError(
                "[Model] expected inputs, InputSpecs of what the network takes, in "
                "static mode, got none"
            )
        self._network, self._executor = network, Executor()
        self._specs = {"input": inputs, "label": labels}
        self._startup = default_startup_program()
        parameters: list[Any] = network.parameters()
        owners = [p.program for p in parameters if isinstance(p, Variable)]
        self._main = owners[0] if owners else default_main_program()
        self._optimizer: Any = None
        self._step: Any = None
        self._names: dict[str, list[str]] = {}
        self._tested: Program | None = None
        #: Sums of gradients by name, of batches that were no steps of their own; and
        #: the program that takes a step with them.
        self._gathered: dict[str, Tensor] = {}
        self._applied: Program | None = None

    # -- programs ---------------------------------------------------------------------
    def prepare(self, optimizer: Any, loss: Any, precision: Precision) -> None:
        with program_guard(self._main, self._startup):
            self._network.train()
            results: dict[str, list[Any]] = {
                k: self._fed(k) for k in ("input", "label")
            }
            results["output"] = listed(self._network(*results["input"]))
            results["loss"] = []
            if loss is not None and results["label"]:
                results["loss"] = listed(loss(*results["output"], *results["label"]))
            self._tested = self._main.clone(for_test=True)
            self._optimizer, self._step = optimizer, None
            self._gathered, self._applied = {}, None
            if optimizer is not None and results["loss"]:
                total = results["loss"][0]
                for more in results["loss"][1:]:
                    total = total + more
                self._step = _precise(optimizer, precision).minimize(total)
        self._names = {k: [v.name for v in found] for k, found in results.items()}
        self._initialize()

    def _fed(self, kind: str) -> list[Variable]:
        found = []
        for i, spec in enumerate(self._specs[kind]):
            name = getattr(spec, "name", None) or f"{kind}_{i}"
            known = self._main.vars.get(name)
            result = known or data(name, list(spec.shape), spec.dtype)
            found.append(result)
        return found

    def _initialize(self) -> None:
        """Make the first values that the scope lacks."""
        scope, part = global_scope(), Program()
        part.random_seed = self._startup.random_seed
        part.initializations = [
            what
            for what in self._startup.initializations
            if (known := scope.find_var(what.name)) is None or known.tensor is None
        ]
        self._executor.run(part)

    # -- batches ----------------------------------------------------------------------
    def running(self) -> AbstractContextManager[object]:
        return at_once()

    def _run(
        self, program: Program, given: Mapping[str, Any], wanted: list[Any]
    ) -> list[Tensor]:
        feed: dict[str, Any] = {}
        for kind, values in given.items():
            pairs = zip(self._names[kind], listed(values), strict=False)
            feed.update((name, _fed_value(value)) for name, value in pairs)
        return self._executor.run(
            program, feed, wanted, return_numpy=False, use_prune=True
        )

    def train(self, inputs: Any, labels: list[Any], update: bool) -> Results:
        if self._step is None:
            raise PreconditionNotMetError(
                "[Model.train_batch] expected labels' InputSpecs in Model(network, "
                "inputs, labels), of which the loss is computed, got none"
            )
        losses, outputs = self._names["loss"], self._names["output"]
        alone = update and not self._gathered
        given = {"input": inputs, "label": labels}
        results = [*losses, *outputs]
        if alone:
            result = self._run(self._main, given, [*results, self._step])
        else:
            result = self._run(self._main, given, [*results, *self._gradient_names()])
            self._gather(result[len(results) :])
            if update:
                self.update()
        return _numbers(result[: len(losses)]), result[len(losses) : len(results)]

    def _gradient_names(self) -> list[str]:
        """The Variables of the parameters' gradients."""
        _, pairs = self._step
        return [p.grad_name for p, _ in pairs]

    def _gather(self, gradients: list[Tensor]) -> None:
        names = self._gradient_names()
        for name, gradient in zip(names, gradients, strict=True):
            held = self._gathered.get(name)
            self._gathered[name] = gradient if held is None else held + gradient

    def update(self) -> None:
        if self._applied is None:
            self._applied = stepping_on(self._main, self._gradient_names())
        program = self._applied
        nodes = [o for o in program.global_block().ops if o.node in program.roles]
        self._executor.run(program, self._gathered, [(nodes, [])], use_prune=True)
        self._gathered = {}

    def evaluate(self, inputs: Any, labels: list[Any]) -> Results:
        losses = self._names["loss"] if labels else []
        wanted = [*losses, *self._names["output"]]
        result = self._run(self._test(), {"input": inputs, "label": labels}, wanted)
        return _numbers(result[: len(losses)]), result[len(losses) :]

    def predict(self, inputs: Any) -> list[Any]:
        return self._run(self._test(), {"input": inputs}, [*self._names["output"]])

    def _test(self) -> Program:
        if self._tested is None:
            raise PreconditionNotMetError(
                "[Model] expected a call of prepare() before, in static mode"
            )
        return self._tested

    # -- state ------------------------------------------------------------------------
    def network_state(self) -> dict[str, Any]:
        return {name: _held(v) for name, v in self._network.state_dict().items()}

    def set_network_state(self, state: Mapping[str, Any]) -> None:
        for name, variable in self._network.state_dict().items():
            if name in state:
                variable.set_value(state[name])

    def optimizer_state(self) -> dict[str, Any] | None:
        if self._optimizer is None:
            return None
        with at_once():
            for p in self._optimizer._parameter_list:
                self._optimizer._slot_values(p)["step"] = self._steps()
            state = self._optimizer.state_dict()
        return {name: _held(value) for name, value in state.items()}

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        with at_once():
            self._optimizer.set_state_dict(state)
        steps = [
            self._optimizer._slot_values(p)["step"]
            for p in self._optimizer._parameter_list
        ]
        for counter in self._counters():
            count = np.array([max(steps, default=0)], np.int64)
            global_scope().var(counter).set(count)

    def _counters(self) -> set[str]:
        """Variables that count the steps."""
        return {counter for _, counter in self._main.counts}

    def _steps(self) -> int:
        counts = (global_scope().find_var(name) for name in self._counters())
        held = [c.tensor for c in counts if c is not None and c.tensor is not None]
        return max((int(t.numpy()[0]) for t in held), default=0)

    def save(self, path: str, inputs: list[Any]) -> None:
        save_inference_model(
            path, self._names["input"], self._names["output"], program=self._test()
        )


def _precise(optimizer: Any, precision: Precision) -> Any:
    """What minimizes a loss in that precision: master weights stay float32."""
    if precision.level == "O0":
        return optimizer
    lists = AutoMixedPrecisionLists(
        precision.casting.get("custom_white_list"),
        precision.casting.get("custom_black_list"),
    )
    scaling = dict(precision.scaling)
    if not precision.scales:
        scaling |= {"init_loss_scaling": 1.0, "use_dynamic_loss_scaling": False}
    return decorate(
        optimizer, lists, level=precision.level, dtype=precision.dtype,
        use_fp16_guard=False, **scaling,
    )  # fmt: skip


def _fed_value(value: Any) -> Any:
    return value if isinstance(value, Tensor) else np.asarray(value)


def _held(value: Any) -> Any:
    """What the scope holds for a Variable; anything else as it is."""
    if isinstance(value, dict):
        return {key: _held(item) for key, item in value.items()}
    if not isinstance(value, Variable):
        return value
    found = value.get_value()
    found.name = value.name
    return found


def _numbers(losses: list[Tensor]) -> list[float]:
    return [float(loss.item()) for loss in losses]
