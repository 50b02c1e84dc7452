"""The predictor: a loaded model that turns arrays into arrays."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidTypeError, NotFoundError, PreconditionNotMetError
from proa.ir import Program
from proa.runtime import Engine
from proa_inference.arguments import has_methods
from proa_inference.config import Config
from proa_inference.observe import observed_outputs
from proa_inference.optimize import build_engine, engine_of_program, optimized_program
from proa_inference.profile import Costs, StepTime, profile_table
from proa_inference.tensor import Held, Tensor, TensorSpec
from proa_inference.types import DataType

Array = NDArray[Any]
#: Is given the operator, the name and the array of each result of a run.
OutputHook = Callable[[str, str, Tensor], None]

_log = logging.getLogger("proa_inference")
#: A profile keeps the steps of so many runs, the last.
_PROFILED_RUNS = 1000


class Predictor:
    """A loaded model. One thread at a time; clone for more.

    Args:
        config: What to load; later changes of it have no effect.

    Raises:
        InvalidArgumentError: If no model was given, or its bytes are not a model.
        InvalidTypeError: If it is given no `Config`.
        VersionError: If it is of a later format than this library reads.
        PreconditionNotMetError: If it is encrypted and there is no key.
    """

    def __init__(self, config: Config) -> None:
        if not isinstance(config, Config):
            raise InvalidTypeError(f"[Predictor] expected a Config, got {config!r}")
        self._config = Config(config)
        self._set_engine(build_engine(self._config))
        if not config.glog_info_disabled():
            model = config.prog_file() or "a model from memory"
            _log.info("loaded %s: %d bytes", model, self._engine.model_bytes)

    def _set_engine(self, engine: Engine) -> None:
        self._engine = engine
        self._inputs = [_spec(*s) for s in engine.inputs]
        self._outputs = [_spec(*s) for s in engine.outputs]
        self._names = [spec.name for spec in self._outputs]
        self._fed, self._fetched = Held(), Held()
        self._hooks: list[OutputHook] = []
        self._observer: tuple[Engine, list[tuple[str, TensorSpec]]] | None = None
        self._program: Program | None = None
        self._runs: list[list[StepTime]] = []
        self._is_profiled = self._config.profile_enabled()
        if self._is_profiled:
            weakref.finalize(self, _print_profile, self._runs)

    def get_input_specs(self) -> list[TensorSpec]:
        """Name, dtype and shape of each input, in order."""
        return list(self._inputs)

    def get_output_specs(self) -> list[TensorSpec]:
        """Name, dtype and shape of each output, in order."""
        return list(self._outputs)

    def get_input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [s.name for s in self._inputs]

    def get_output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return list(self._names)

    def get_input_handle(self, name: str) -> Tensor:
        """The handle of an input.

        Raises:
            NotFoundError: If the model has no such input.
        """
        return Tensor(_find(self._inputs, name, "input"), self._fed, is_input=True)

    def get_output_handle(self, name: str) -> Tensor:
        """The handle of an output.

        Raises:
            NotFoundError: If the model has no such output.
        """
        spec = _find(self._outputs, name, "output")
        return Tensor(spec, self._fetched, is_input=False)

    def run(self, inputs: Sequence[Any] | None = None) -> list[Array]:
        """Run the model on `inputs`, or on what the input handles hold.

        Arrays are read in place, whatever their strides. The results are new arrays.

        Raises:
            InvalidArgumentError: If a number, dtype or shape is not the model's.
            InvalidTypeError: If `inputs` is a dictionary or a text.
            PreconditionNotMetError: If an input handle holds nothing.
            UnavailableError: If `stop` ended it.
        """
        if isinstance(inputs, (dict, str)):
            raise InvalidTypeError(
                "[Predictor.run] expected an array for each of "
                f"{', '.join(self.get_input_names())}, in that order, got "
                f"{inputs!r:.80}"
            )
        arrays = self._given() if inputs is None else list(inputs)
        results: list[Array]
        if self._hooks:
            results = self._run_observed(arrays)
        elif self._is_profiled:
            results, steps = self._engine.run_profiled(arrays)
            self._runs.append(self._timed(steps, arrays))
            del self._runs[:-_PROFILED_RUNS]
        else:
            results = self._engine.run(arrays)
        self._fetched.arrays = dict(zip(self._names, results, strict=True))
        return results

    def profile(self, inputs: Sequence[Array]) -> list[StepTime]:
        """Run once on `inputs` and say how long each step took."""
        return self._timed(self._engine.profile(list(inputs)), inputs)

    def profile_runs(self) -> list[list[StepTime]]:
        """The steps of the last runs, if `Config.enable_profile` was called."""
        return [list(steps) for steps in self._runs]

    def clone(self) -> Predictor:
        """A predictor for another thread: the same weights, memory of its own.

        Hooks are not cloned.
        """
        clone = object.__new__(Predictor)
        clone._config = self._config
        clone._set_engine(self._engine.clone())
        return clone

    def register_output_hook(self, hook: OutputHook) -> None:
        """Call `hook` after each run with every array that was computed.

        Runs are then slower and take memory for all arrays at once. What passes fused
        has no array.

        Args:
            hook: Is given the operator, the array's name and a handle on it.

        Raises:
            UnimplementedError: If the model has branches or loops.
        """
        has_methods("Predictor.register_output_hook", "hook", hook)
        if self._observer is None:
            program = optimized_program(self._config)
            ops = observed_outputs(program)
            engine = engine_of_program(program, self._config)
            specs = [_spec(*s) for s in engine.outputs[len(self._outputs) :]]
            self._observer = engine, list(zip(ops, specs, strict=True))
        self._hooks.append(hook)

    def try_shrink_memory(self) -> int:
        """Free the memory of runs until the next one; returns the bytes."""
        return self._engine.release_memory()

    def clear_intermediate_tensor(self) -> None:
        """Free the memory of intermediate arrays; what handles hold stays."""
        self._engine.release_memory()

    def has_control_flow(self) -> bool:
        """Whether the model has branches or loops that follow from its input."""
        return bool(self._engine.has_control_flow)

    def stop(self) -> None:
        """End the `run` that another thread has in progress, if the model has control
        flow: that raises an UnavailableError before its next round or branch.
        """
        self._engine.stop()

    def metadata(self) -> dict[str, str]:
        """The metadata of the model file."""
        return dict(self._engine.metadata)

    def memory(self) -> dict[str, int]:
        """Bytes of the model, of its prepacked weights, and of the arena."""
        return {
            "model": self._engine.model_bytes,
            "packed": self._engine.packed_bytes,
            "arena": self._engine.arena_bytes,
        }

    def _given(self) -> list[Array]:
        held = self._fed.arrays
        missing = [s.name for s in self._inputs if s.name not in held]
        if missing:
            raise PreconditionNotMetError(
                "[Predictor.run] expected every input, got none for "
                f"{', '.join(missing)}"
            )
        return [held[s.name] for s in self._inputs]

    def _run_observed(self, arrays: list[Array]) -> list[Array]:
        assert self._observer is not None  # made with the first hook
        engine, observed = self._observer
        results = engine.run(arrays)
        count = len(self._outputs)
        held = Held(
            {s.name: y for (_, s), y in zip(observed, results[count:], strict=True)}
        )
        for hook in self._hooks:
            for op, spec in observed:
                hook(op, spec.name, Tensor(spec, held, is_input=False))
        return results[:count]

    def _timed(
        self, steps: Sequence[tuple[str, str, int]], inputs: Sequence[Any]
    ) -> list[StepTime]:
        if self._program is None:
            self._program = optimized_program(self._config)
        costs = Costs(self._program, [np.shape(array) for array in inputs])
        return [StepTime(op, name, ns / 1e6, *costs.of(name)) for op, name, ns in steps]


def _spec(name: str, dtype: str, shape: tuple[int, ...]) -> TensorSpec:
    kind = DataType[dtype.upper()]
    return TensorSpec(name, kind.numpy, tuple(shape), kind)


def _find(specs: list[TensorSpec], name: str, kind: str) -> TensorSpec:
    for spec in specs:
        if spec.name == name:
            return spec
    names = ", ".join(s.name for s in specs)
    raise NotFoundError(f"[Predictor] {kind} name must be one of {names}, got {name!r}")


def _print_profile(runs: list[list[StepTime]]) -> None:
    if runs:
        print(profile_table(runs), file=sys.stderr)


def create_predictor(config: Config) -> Predictor:
    """Load the model that `config` names; errors as of `Predictor`."""
    return Predictor(config)
