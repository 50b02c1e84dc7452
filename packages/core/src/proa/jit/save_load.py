"""jit.save and jit.load."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from proa import _core
from proa.base.flags import checks_finite
from proa.errors import InvalidArgumentError
from proa.ir import Program, from_bytes, read, to_bytes, write
from proa.ir.attributes import row_of
from proa.ir.file import check_storable
from proa.ir.passes import apply
from proa.ir.program import Value
from proa.ir.record import dtype_name, to_array, to_tensor
from proa.jit.by_ops import run_by_ops
from proa.jit.convert.effects import left_out
from proa.jit.input_spec import as_specs
from proa.jit.static_function import StaticFunction, engine_of, run_engine
from proa.jit.structure import unflatten
from proa.jit.trace import Trace, owner_of

_SUFFIX = ".proa"
#: What a saved program is rid of. Fusions are left to who runs it.
_SAVED_PASSES = ("remove_identities", "merge_equal_nodes", "remove_dead_code")


def file_of(path: str | os.PathLike[str]) -> str:
    """The path itself if it ends in .proa, else with that added."""
    name = os.fspath(path)
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


@contextmanager
def _evaluating(owner: Any) -> Iterator[None]:
    """The Layer in evaluation mode; afterwards each of its parts as it was."""
    parts = [] if owner is None else [owner, *owner.sublayers()]
    modes = [(part, part.training) for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("proa")
    except PackageNotFoundError:
        return "unknown"


def export(layer: Any, input_spec: Sequence[Any] | None = None) -> Trace:
    """The program of a Layer or function in evaluation mode, as `save` writes it."""
    static = layer
    if owner_of(layer) is layer:
        static = layer.forward
    specs = None if input_spec is None else as_specs(list(input_spec))
    known = static.input_spec if isinstance(static, StaticFunction) else None
    if specs is None and known is None and not isinstance(static, StaticFunction):
        raise InvalidArgumentError(
            "[jit.save] input_spec must say the inputs' shapes, got None"
        )
    function = static.function if isinstance(static, StaticFunction) else static
    owner = static.owner if isinstance(static, StaticFunction) else owner_of(layer)
    with _evaluating(owner), left_out():
        fresh = StaticFunction(function, specs or known, owner)
        as_called = fresh.input_spec is None and isinstance(static, StaticFunction)
        found = fresh.traced_like(static) if as_called else fresh.traced()
    program = found.program
    program.metadata["framework"] = f"proa {_version()}"
    program.metadata["name"] = (
        type(layer).__name__ if owner is layer else layer.__name__
    )
    shapes = [[v.name, v.dtype, list(v.shape)] for v in program.main.inputs]
    program.metadata["input_spec"] = json.dumps(shapes)
    # A value that only Python knows cannot be stored: outputs then come as a flat list.
    with suppress(TypeError):
        program.metadata["outputs"] = json.dumps(found.plan)
    return found


def save(
    layer: Any,
    path: str | os.PathLike[str] | IO[bytes],
    input_spec: Sequence[Any] | None = None,
    **configs: object,
) -> None:
    """Write a Layer or function as one model file.

    Args:
        layer: A Layer (saved in evaluation mode) or a function, static or not.
        path: The file's path (`.proa` is added if it does not end so), or a file open
            for writing bytes, such as `io.BytesIO`.
        input_spec: `InputSpec`s or example tensors, which may stand in lists and
            dictionaries as the call's arguments do; may be left out if `to_static` had
            them or the function was called. The model takes them one after another.

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known.
        UnimplementedError: If the code depends on a tensor's value or calls Python
            functions of `static.py_func`; names the line.
    """
    program = export(layer, input_spec).program
    apply(program, _SAVED_PASSES)
    if isinstance(path, (str, os.PathLike)):
        write(program, file_of(path))
    else:
        check_storable(program)
        path.write(to_bytes(program))


class TranslatedLayer:
    """A loaded model: callable, with parameters that can be trained further.

    Without gradients it runs as a plan; where one is wanted, op by op on the tape.

    Args:
        programs: The program, or {"forward": program}.
        persistable_vars: Tensors by structured name that replace the program's.
    """

    def __init__(
        self,
        programs: Program | Mapping[str, Program],
        persistable_vars: Mapping[str, Any] | None = None,
    ) -> None:
        program = programs if isinstance(programs, Program) else programs["forward"]
        self._program = program
        self.training = False
        self._tensors: dict[Value, Any] = {}
        self._names: dict[str, Value] = {}
        for value in program.constants():
            assert value.data is not None
            tensor = to_tensor(value.data.copy(), value.dtype)
            if value.kind == "param":
                tensor.stop_gradient = not value.dtype.startswith(("float", "bfloat"))
                self._names[value.name] = value
            self._tensors[value] = tensor
        #: An engine draws the same numbers in every run.
        self._is_random = any(row_of(n.op).family == "rand" for n in program.nodes())
        self._engine: Any = None
        self._versions: list[int] = []
        self._plan = json.loads(program.metadata.get("outputs", "null"))
        self.set_state_dict(dict(persistable_vars or {}))

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Structured names and tensors."""
        for name, value in self._names.items():
            yield name, self._tensors[value]

    def parameters(self) -> list[Any]:
        """The model's weights."""
        return [tensor for _, tensor in self.named_parameters()]

    def state_dict(self) -> dict[str, Any]:
        """The model's weights by structured name."""
        return dict(self.named_parameters())

    def set_state_dict(self, state: dict[str, Any]) -> None:
        """Replace weights of these names."""
        for name, tensor in state.items():
            if name not in self._names:
                raise InvalidArgumentError(
                    f"[TranslatedLayer] names must be of {list(self._names)}, "
                    f"got {name!r}"
                )
            value = self._names[name]
            if tuple(tensor.shape) != value.shape or dtype_name(tensor) != value.dtype:
                raise InvalidArgumentError(
                    f"[TranslatedLayer] {name} must be {value}, "
                    f"got {dtype_name(tensor)} of shape {tuple(tensor.shape)}"
                )
            fresh = to_tensor(to_array(tensor).copy(), value.dtype)
            fresh.stop_gradient = self._tensors[value].stop_gradient
            self._tensors[value] = fresh
        self._engine = None

    def sublayers(self) -> list[Any]:
        """None: the structure was lost in the graph."""
        return []

    def train(self) -> None:
        """Let gradients flow to the weights."""
        self.training = True

    def eval(self) -> None:
        """Run as a plan."""
        self.training = False

    def program(self, method_name: str = "forward") -> Program:
        """The loaded program."""
        if method_name != "forward":
            raise InvalidArgumentError(
                f"[TranslatedLayer] method_name must be 'forward', got {method_name!r}"
            )
        return self._program

    def _by_ops(self, tensors: Sequence[Any]) -> list[Any]:
        return run_by_ops(self._program, self._tensors, tensors)

    def _by_plan(self, tensors: Sequence[Any]) -> list[Any]:
        versions = [t.inplace_version for t in self._tensors.values()]
        if self._engine is None or versions != self._versions:
            for value, tensor in self._tensors.items():
                value.data = to_array(tensor)
            self._engine = engine_of(self._program)
            self._versions = versions
        return run_engine(self._engine, tensors)

    def forward(self, *tensors: Any) -> Any:
        """Run the model on one tensor for each input."""
        if len(tensors) != len(self._program.main.inputs):
            raise InvalidArgumentError(
                "[TranslatedLayer] the call must have "
                f"{len(self._program.main.inputs)} tensors, got {len(tensors)}"
            )
        wanted = _core.is_grad_enabled() and (
            self.training or any(not t.stop_gradient for t in tensors)
        )
        symbolic = any(t._handle is not None for t in tensors)
        by_ops = wanted or symbolic or self._is_random or checks_finite()
        run = self._by_ops if by_ops else self._by_plan
        outputs = run(tensors)
        if self._plan is not None:
            return unflatten(outputs, self._plan)
        return outputs[0] if len(outputs) == 1 else outputs

    __call__ = forward


def load(
    path: str | os.PathLike[str] | IO[bytes], **configs: object
) -> TranslatedLayer:
    """The model that `save` wrote, from its path or a file open for reading bytes.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it is no sound model file.
        VersionError: If a version of Proa wrote it that this one cannot read.
    """
    if not isinstance(path, (str, os.PathLike)):
        return TranslatedLayer(from_bytes(path.read()))
    name = os.fspath(path)
    return TranslatedLayer(read(name if os.path.exists(name) else file_of(name)))
