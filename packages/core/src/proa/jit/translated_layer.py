"""`TranslatedLayer`: a model file as a callable whose weights train further."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proa import _core
from proa.base.flags import checks_finite
from proa.errors import InvalidArgumentError
from proa.ir import Program
from proa.ir.attributes import draws
from proa.ir.program import Value
from proa.ir.record import dtype_name, to_array, to_tensor
from proa.jit.compiled import engine_of, run_engine
from proa.jit.interpreter import interpret
from proa.jit.pytree import unflatten

if TYPE_CHECKING:
    from proa._core import Tensor


def noted(program: Program, key: str) -> Any:
    """What `jit.save` noted as JSON in a model's metadata; None if it did not.

    Raises:
        InvalidArgumentError: If it is no JSON.
    """
    text = program.metadata.get(key, "null")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(
            f"[jit.load] expected JSON as the metadata {key!r} of a model file, got "
            f"{text[:80]!r}"
        ) from None


class _AnyOutput:
    """A placeholder for an output, where only the nesting matters."""

    _is_symbolic = True


def _output_plan(program: Program) -> Any:
    """How the outputs are nested; None for a flat list."""
    treedef = noted(program, "outputs")
    try:
        if treedef is not None:
            unflatten([_AnyOutput()] * len(program.main.outputs), treedef)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise InvalidArgumentError(
            "[jit.load] expected the structure of the outputs in the model file, got "
            "damaged metadata"
        ) from None
    return treedef


class _Method:
    """One program of a loaded model.

    Args:
        name: What the model calls it.
        program: What it runs.
        parameters: Tensors by structured name, shared with the model's other methods;
            those that this program brings are added.
    """

    def __init__(
        self, name: str, program: Program, parameters: dict[str, Tensor]
    ) -> None:
        self.name, self.program = name, program
        self.parameters = parameters
        self.values: dict[str, Value] = {}
        self._constants: dict[Value, Tensor] = {}
        for value in program.constants():
            assert value.data is not None
            if value.kind == "param":
                self.values[value.name] = value
            if value.kind != "param" or value.name not in parameters:
                own = value.data if value.data.flags.writeable else value.data.copy()
                tensor = to_tensor(own, value.dtype)
                if value.kind == "param":
                    is_float = value.dtype.startswith(("float", "bfloat"))
                    tensor.stop_gradient = not is_float
                    parameters[value.name] = tensor
                else:
                    self._constants[value] = tensor
        #: An engine draws the same numbers in every run.
        self._is_random = any(draws(n.op, n.attrs) for n in program.nodes())
        self._engine: Any = None
        self._versions: list[int] = []
        self._treedef = _output_plan(program)

    def _tensors(self) -> dict[Value, Tensor]:
        """A tensor for each constant and parameter."""
        own = {v: self.parameters[name] for name, v in self.values.items()}
        return {**self._constants, **own}

    def forget_engine(self) -> None:
        """Parameters were replaced: the engine has others."""
        self._engine = None

    def _run_engine(self, tensors: Sequence[Tensor]) -> list[Any]:
        weights = self._tensors()
        versions = [t.inplace_version for t in weights.values()]
        if self._engine is None or versions != self._versions:
            for value, tensor in weights.items():
                value.data = to_array(tensor)
            self._engine = engine_of(self.program)
            self._versions = versions
        return run_engine(self._engine, tensors)

    def run(self, tensors: Sequence[Tensor], training: bool) -> Any:
        """The result for one tensor for each input."""
        inputs = self.program.main.inputs
        if len(tensors) != len(inputs):
            raise InvalidArgumentError(
                f"[TranslatedLayer.{self.name}] expected {len(inputs)} tensors, "
                f"got {len(tensors)}"
            )
        wants_gradient = _core.is_grad_enabled() and (
            training or any(not t.stop_gradient for t in tensors)
        )
        symbolic = any(t._handle is not None for t in tensors)
        if wants_gradient or symbolic or self._is_random or checks_finite():
            outputs = interpret(self.program, self._tensors(), tensors)
        else:
            outputs = self._run_engine(tensors)
        if self._treedef is not None:
            return unflatten(outputs, self._treedef)
        return outputs[0] if len(outputs) == 1 else outputs


class TranslatedLayer:
    """A loaded model: callable, with parameters that can be trained further.

    Without gradients it runs as a plan; where one is wanted, op by op on the tape. Its
    programs other than ``forward`` are methods: ``loaded.encode(x)``.

    Args:
        programs: The program, or programs by the name of their method, with "forward"
            among them. Parameters of one name are one tensor.
        persistable_vars: Tensors by structured name that replace the program's.
    """

    def __init__(
        self,
        programs: Program | Mapping[str, Program],
        persistable_vars: Mapping[str, Tensor] | None = None,
    ) -> None:
        named = {"forward": programs} if isinstance(programs, Program) else programs
        self.training = False
        self._parameters: dict[str, Tensor] = {}
        self._methods = {
            name: _Method(name, program, self._parameters)
            for name, program in named.items()
        }
        self.set_state_dict(dict(persistable_vars or {}))

    @property
    def _output_names(self) -> list[str]:
        """What `jit.save` calls the outputs: what they were called when loaded."""
        return [value.name for value in self.program().main.outputs]

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Structured names and tensors."""
        yield from self._parameters.items()

    def parameters(self) -> list[Tensor]:
        """The model's weights."""
        return list(self._parameters.values())

    def state_dict(self) -> dict[str, Tensor]:
        """The model's weights by structured name."""
        return dict(self._parameters)

    def set_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replace weights of these names.

        Raises:
            InvalidArgumentError: If the model has no such weight, or one of another
                shape or dtype.
        """
        values: dict[str, Value] = {}
        for method in self._methods.values():
            values.update(method.values)
        for name, tensor in state.items():
            if name not in values:
                raise InvalidArgumentError(
                    f"[TranslatedLayer] expected a name of {list(values)}, got {name!r}"
                )
            value = values[name]
            if tuple(tensor.shape) != value.shape or dtype_name(tensor) != value.dtype:
                raise InvalidArgumentError(
                    f"[TranslatedLayer] {name} must be {value}, "
                    f"got {dtype_name(tensor)} of shape {tuple(tensor.shape)}"
                )
            fresh = to_tensor(to_array(tensor).copy(), value.dtype)
            fresh.stop_gradient = self._parameters[name].stop_gradient
            self._parameters[name] = fresh
        for method in self._methods.values():
            method.forget_engine()

    def sublayers(self) -> list[object]:
        """None: the structure was lost in the graph."""
        return []

    def train(self) -> None:
        """Let gradients flow to the weights."""
        self.training = True

    def eval(self) -> None:
        """Run as a plan."""
        self.training = False

    def program(self, method_name: str = "forward") -> Program:
        """The loaded program of a method."""
        if method_name not in self._methods:
            raise InvalidArgumentError(
                f"[TranslatedLayer.program] expected one of {list(self._methods)} as "
                f"method_name, got {method_name!r}"
            )
        return self._methods[method_name].program

    def forward(self, *tensors: Tensor) -> Any:
        """Run the model on one tensor for each input."""
        return self._methods["forward"].run(tensors, self.training)

    __call__ = forward

    def __getattr__(self, name: str) -> Any:
        methods = self.__dict__.get("_methods", {})
        if name not in methods:
            raise AttributeError(
                f"[TranslatedLayer] expected one of the saved methods {list(methods)} "
                f"or an attribute of every loaded model, got {name!r}"
            )

        def method(*tensors: Tensor) -> Any:
            return methods[name].run(tensors, self.training)

        method.__name__ = name
        return method

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__dict__.get("_methods", {})]
