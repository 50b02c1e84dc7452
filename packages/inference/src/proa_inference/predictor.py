"""The predictor: a loaded model that turns arrays into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.runtime import Engine, engine_from_bytes, load_engine
from proa_inference.config import Config
from proa_inference.optimize import optimized_engine

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of an input or output; -1 is a dimension that may vary."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StepTime:
    """One step of a profiled run."""

    op: str
    name: str
    milliseconds: float


class Tensor:
    """A handle on one input or output of a predictor."""

    def __init__(
        self, predictor: Predictor, spec: TensorSpec, *, is_input: bool
    ) -> None:
        self._predictor, self._spec, self._is_input = predictor, spec, is_input

    def name(self) -> str:
        """Name of the input or output."""
        return self._spec.name

    def type(self) -> np.dtype[Any]:
        """Its dtype (bfloat16 travels as uint16)."""
        return self._spec.dtype

    def shape(self) -> list[int]:
        """Shape of the array it holds now; before that, what the model states."""
        held = self._predictor._held(self._spec.name)
        return list(self._spec.shape if held is None else held.shape)

    def reshape(self, shape: Sequence[int]) -> None:
        """Give an input a new array of zeros of that shape, to be filled."""
        self.share_external_data(np.zeros(tuple(shape), self._spec.dtype))

    def copy_from_cpu(self, data: Array) -> None:
        """Set the input to a copy of `data`."""
        self.share_external_data(np.array(data, order="C"))

    def share_external_data(self, data: Array) -> None:
        """Set the input to `data` itself, which `run` then reads in place.

        Raises:
            InvalidArgumentError: If the handle is an output's or the dtype is not the
            input's.
        """
        if not self._is_input:
            raise InvalidArgumentError(
                f"[Tensor] data can only be given to an input, got the output "
                f"{self.name()!r}"
            )
        if data.dtype != self._spec.dtype:
            raise InvalidArgumentError(
                f"[Tensor] input {self.name()!r} must be {self._spec.dtype}, "
                f"got {data.dtype}"
            )
        self._predictor._feed[self._spec.name] = data

    def copy_to_cpu(self) -> Array:
        """The array of an output after `run`, or of an input.

        Raises:
            PreconditionNotMetError: If there is none yet.
        """
        held = self._predictor._held(self._spec.name)
        if held is None:
            must = "be given" if self._is_input else "be computed by run()"
            raise PreconditionNotMetError(
                f"[Tensor] {self.name()!r} must {must} before it is read, got no data"
            )
        return held


class Predictor:
    """A loaded model, by `create_predictor`. One thread at a time; clone for more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inputs = [_spec(*s) for s in engine.inputs]
        self._outputs = [_spec(*s) for s in engine.outputs]
        self._feed: dict[str, Array] = {}
        self._fetch: dict[str, Array] = {}

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
        return [s.name for s in self._outputs]

    def get_input_handle(self, name: str) -> Tensor:
        """The handle of an input.

        Raises:
            NotFoundError: If the model has no such input.
        """
        return Tensor(self, _find(self._inputs, name, "input"), is_input=True)

    def get_output_handle(self, name: str) -> Tensor:
        """The handle of an output.

        Raises:
            NotFoundError: If the model has no such output.
        """
        return Tensor(self, _find(self._outputs, name, "output"), is_input=False)

    def run(self, inputs: Sequence[Array] | None = None) -> list[Array]:
        """Run the model on `inputs`, or on what the input handles hold.

        Arrays are read in place, whatever their strides. The results are new arrays.

        Raises:
            InvalidArgumentError: If a number, dtype or shape is not the model's.
            PreconditionNotMetError: If an input handle holds nothing.
            UnavailableError: If `stop` ended it.
        """
        arrays = self._fed() if inputs is None else list(inputs)
        results: list[Array] = self._engine.run(arrays)
        self._fetch = dict(zip(self.get_output_names(), results, strict=True))
        return results

    def profile(self, inputs: Sequence[Array]) -> list[StepTime]:
        """Run once on `inputs` and say how long each step took."""
        return [
            StepTime(op, name, nanoseconds / 1e6)
            for op, name, nanoseconds in self._engine.profile(list(inputs))
        ]

    def clone(self) -> Predictor:
        """A predictor for another thread: the same weights, memory of its own."""
        return Predictor(self._engine.clone())

    def has_control_flow(self) -> bool:
        """Whether the model has branches or loops that follow from its input."""
        return bool(self._engine.has_control_flow)

    def stop(self) -> None:
        """End the `run` that another thread has in progress, if the model has control
        flow: that raises an UnavailableError before its next round or branch.
        """
        self._engine.stop()

    def metadata(self) -> dict[str, str]:
        """What the model file says of itself."""
        return dict(self._engine.metadata)

    def memory(self) -> dict[str, int]:
        """Bytes of the model, of its prepacked weights, and of the arena."""
        return {
            "model": self._engine.model_bytes,
            "packed": self._engine.packed_bytes,
            "arena": self._engine.arena_bytes,
        }

    def _held(self, name: str) -> Array | None:
        return self._feed.get(name, self._fetch.get(name))

    def _fed(self) -> list[Array]:
        missing = [s.name for s in self._inputs if s.name not in self._feed]
        if missing:
            raise PreconditionNotMetError(
                "[Predictor.run] expected every input, got none for "
                f"{', '.join(missing)}"
            )
        return [self._feed[s.name] for s in self._inputs]


def _spec(name: str, dtype: str, shape: tuple[int, ...]) -> TensorSpec:
    # NumPy lacks bfloat16: its bits travel as uint16.
    kind = "uint16" if dtype == "bfloat16" else dtype
    return TensorSpec(name, np.dtype(kind), tuple(shape))


def _find(specs: list[TensorSpec], name: str, kind: str) -> TensorSpec:
    for spec in specs:
        if spec.name == name:
            return spec
    names = ", ".join(s.name for s in specs)
    raise NotFoundError(f"[Predictor] {kind} name must be one of {names}, got {name!r}")


def create_predictor(config: Config) -> Predictor:
    """Load the model that `config` names.

    Raises:
        InvalidArgumentError: If no model was given, or its bytes are not a model.
        VersionError: If it is of a later format than this library reads.
    """
    threads = config.cpu_math_library_num_threads()
    names = config.pass_builder().all_passes() if config.ir_optim() else []
    if names:
        return Predictor(optimized_engine(config.content(), names, threads))
    if config.model_from_memory():
        return Predictor(engine_from_bytes(config.content(), threads))
    config_path = config.prog_file()
    if not config_path:
        config.content()  # says that there is no model
    return Predictor(load_engine(config_path, threads))
