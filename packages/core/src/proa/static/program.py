"""`Program`: statements in static mode, recorded as a graph with named Variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proa import _core
from proa._core import Tensor, ops
from proa.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa.ir.flow import is_flow
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.nn.attr import ParamAttr
from proa.nn.sequences import RowSequences
from proa.static.block import Block
from proa.static.clone import copy_into
from proa.static.marks import current_device, current_scope
from proa.static.recorder import DRAWN, ProgramRecorder
from proa.static.scope import Scope, global_scope
from proa.static.sequences import share
from proa.static.serialization import read_into, to_string
from proa.static.variable import ParameterVariable, Variable

if TYPE_CHECKING:
    from proa.base.mode import FeedReader
    from proa.base.typing import TensorLike
    from proa.nn.clip import ClipGrad

    _Pairs = list[tuple[Tensor, Tensor | None]]


@dataclass
class StartupRun:
    """One run of a startup program.

    Attributes:
        scope: Where values go.
        keys: Keys of draws that several first values have in common.
    """

    scope: Scope
    keys: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def value(self, name: str) -> Tensor:
        """A value that was made before.

        Raises:
            PreconditionNotMetError: If there is none.
        """
        found = self.scope.find_var(name)
        if found is None or found.tensor is None:
            raise PreconditionNotMetError(
                f"[static] expected {name!r} in the scope, got nothing"
            )
        return found.tensor


@dataclass(frozen=True)
class Initialization:
    """A Variable's first value, which a run of a startup program makes.

    Attributes:
        name: The Variable's.
        kind: What makes it, as a text: ``xavier_uniform``.
        shape, dtype: Those of the Variable.
        make: Gives the value in a run.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    make: Callable[[StartupRun], Tensor]


class Program:
    """A graph that static mode builds statement by statement, with its Variables.

    ``default_main_program()`` is the one that statements go to; `program_guard`
    changes which that is.

    Attributes:
        graph: The recorded nodes, an IR program.
        vars: Variables by name, in the order in which they were made.
        data: The inputs that runs are fed, by name.
        states: The inputs that runs find in the scope, by name.
        initializations: What a run begins with, if this is a startup program.
        draws: How many numbers each draw takes, as far as that is known.
        rates: Nodes with what gives their learning rate, and a key of equal rates.
        counts: Nodes with the counter that numbers their steps.
        symbolic_shapes: Shapes with unknown sizes that nodes have as attributes.
        origins: For a clone, values of the first program -> its own, where unknown
            sizes are those of the former.
        tested: Values -> what a test of the program has in their place.
        roles: "backward" or "optimize" of nodes that are no forward ones.
        scopes: The name scopes of nodes.
        devices: The devices that `device_guard` named for nodes.
        lod_levels: How many levels of lengths data have, by name.
        sequences: Values whose rows make sequences, with these.
        unshaped: Values of Variables that get a shape when they are assigned.
        gradient_clips: By the names of parameters, what clips gradients for optimizers
            that clip none.
        readers: Give what runs are fed, once they are started.
        version: Changes with the program.
    """

    def __init__(self) -> None:
        self.recorder = ProgramRecorder(self)
        self.graph: Graph = self.recorder.program
        self.vars: dict[str, Variable] = {}
        self.data: dict[str, Value] = {}
        self.states: dict[str, Value] = {}
        self.initializations: list[Initialization] = []
        self.draws: list[int] = []
        self.rates: list[tuple[Node, Callable[[], float], Any]] = []
        self.counts: list[tuple[Node, str]] = []
        self.symbolic_shapes: dict[Node, list[Any]] = {}
        self.origins: dict[Value, Value] = {}
        self.tested: dict[Value, Value] = {}
        self.roles: dict[Node, str] = {}
        self.scopes: dict[Node, str] = {}
        self.devices: dict[Node, str] = {}
        self.lod_levels: dict[str, int] = {}
        self.sequences: dict[Value, RowSequences] = {}
        self.unshaped: set[Value] = set()
        self.gradient_clips: dict[str, ClipGrad] = {}
        self.readers: list[FeedReader] = []
        self._constants: dict[int, tuple[Tensor, Variable]] = {}
        self.version = 0
        self._role = ""
        self._seed = _GlobalSeed.value

    # -- what the recorder notes ------------------------------------------------------
    def register(self, variable: Variable) -> None:
        """Let a Variable be found by its name."""
        self.vars[variable.name] = variable

    def note(self, node: Node) -> None:
        """A node was added."""
        self.version += 1
        if self._role:
            self.roles[node] = self._role
        elif self.sequences and not is_flow(node):
            share(self, node)
        if scope := current_scope():
            self.scopes[node] = scope
        if device := current_device():
            self.devices[node] = device

    @contextmanager
    def role(self, role: str) -> Iterator[None]:
        """While open, nodes that are added have this role."""
        before, self._role = self._role, role
        try:
            yield
        finally:
            self._role = before

    def constant(self, tensor: Tensor) -> Variable:
        """A Variable that stands for a tensor with a value; always the same one."""
        if id(tensor) not in self._constants:
            value = self.recorder.value_of(tensor.detach())
            self._constants[id(tensor)] = tensor, self.recorder.symbol(value)
        return self._constants[id(tensor)][1]

    def clipped(self, pairs: _Pairs) -> _Pairs:
        """Parameters with gradients, clipped by `gradient_clips`."""
        given, held = [*pairs], self.gradient_clips
        for clip in dict.fromkeys(held.values()):
            own = [i for i, (p, _) in enumerate(given) if held.get(p.name) is clip]
            for i, pair in zip(own, clip([given[i] for i in own]), strict=True):
                given[i] = pair
        return given

    def draw(self, count: int) -> tuple[int, int]:
        """The key of a random operator that draws so many numbers."""
        self.draws.append(count)
        return DRAWN, len(self.draws) - 1

    # -- Variables --------------------------------------------------------------------
    def _input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        if name in self.vars:
            raise AlreadyExistsError(
                f"[static] expected an unused name in the program, got {name!r}"
            )
        value = Value(name, dtype, tuple(shape), "input")
        self.graph.main.inputs.append(value)
        self.graph.reserve(name)
        self.version += 1
        return value

    def add_data(self, name: str, dtype: str, shape: Sequence[int]) -> Variable:
        """An input that runs are fed; one of this name, dtype and shape that exists is
        given again.
        """
        known = self.data.get(name)
        if known is not None and (known.dtype, known.shape) == (dtype, tuple(shape)):
            return self.vars[name]
        value = self._input(name, dtype, shape)
        self.data[name] = value
        variable = Variable(value, self.recorder)
        self.register(variable)
        return variable

    def add_state(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        attr: ParamAttr | None = None,
    ) -> Variable:
        """A persistable Variable; a parameter if it has an attribute.

        One of this name, shape and dtype that exists is given again.
        """
        known = self.vars.get(name)
        if known is not None and known.persistable:
            if (known.dtype.name, tuple(known.shape)) != (dtype, tuple(shape)):
                raise InvalidArgumentError(
                    f"[static] {name!r} must be {known.dtype.name}{list(known.shape)} "
                    f"as before, got {dtype}{list(shape)}"
                )
            return known
        value = self._input(name, dtype, shape)
        self.states[name] = value
        if attr is None:
            variable = Variable(value, self.recorder)
            variable.persistable = True
        else:
            variable = ParameterVariable(value, self.recorder, attr)
        self.register(variable)
        return variable

    def assign(self, value: Tensor, output: Tensor) -> None:
        """Let a Variable stand for a copy of another value from here on.

        One of `Block.create_var` that nothing has read yet is then no input anymore.

        Raises:
            InvalidArgumentError: If the value has another dtype than the Variable, or
                a shape that a persistable one cannot have.
        """
        before: Value = output._handle[1]
        taken = (value.dtype.name, len(value.shape), tuple(map(int, value.shape)))
        shape = before.shape
        fits = taken[:2] == (before.dtype, len(shape)) and all(
            n == m or -1 in (n, m) for n, m in zip(taken[2], shape, strict=True)
        )
        if taken[0] != before.dtype or (output.persistable and not fits):
            raise InvalidArgumentError(
                f"[static] {output.name!r} must be assigned {before.dtype}"
                f"{list(shape)}, got {taken[0]}{list(taken[2])}"
            )
        if before in self.unshaped and not self.recorder.bodies:
            self.unshaped.remove(before)
        self.recorder.value_of(output)  # which a body around may have to carry
        stop = output.stop_gradient or output.persistable
        enabled = _core.set_grad_enabled(_core.is_grad_enabled() and not stop)
        try:
            if value._is_symbolic:
                result = ops.assign(value)
            else:
                (result,) = self.recorder("assign", [value], {})
            _core.rebind_symbol(output, result)
        finally:
            _core.set_grad_enabled(enabled)
        output.stop_gradient = stop or result.stop_gradient
        name = output.name
        if self.data.get(name) is before and not before.users:
            del self.data[name]
            self.graph.main.inputs.remove(before)
        self.version += 1

    def adopt(self, variable: Variable) -> Variable:
        """This program's Variable for a persistable one of another program."""
        if not variable.persistable:
            raise InvalidArgumentError(
                "[static] Variables must belong to the program that is built, got "
                f"{variable.name!r} of another"
            )
        known = self.vars.get(variable.name)
        if known is not None:
            return known
        attr = None
        if isinstance(variable, ParameterVariable):
            attr = variable.creation_attr()
        shape = tuple(map(int, variable.shape))
        return self.add_state(variable.name, variable.dtype.name, shape, attr)

    def initialize(self, what: Initialization) -> None:
        """Let runs of this startup program make a value, unless they make one of that
        name already.
        """
        if all(known.name != what.name for known in self.initializations):
            self.initializations.append(what)
            self.version += 1

    def find(self, name: str, where: str = "static") -> Variable:
        """The Variable of a name.

        Raises:
            NotFoundError: If there is none.
        """
        found = self.vars.get(name)
        if found is None:
            raise NotFoundError(
                f"[{where}] expected the name of a Variable of the program, got "
                f"{name!r}"
            )
        return found

    # -- blocks -----------------------------------------------------------------------
    def global_block(self) -> Block:
        """The block that statements outside branches and loops go to."""
        return Block(self, 0)

    def block(self, index: int) -> Block:
        """A block by its number.

        Raises:
            InvalidArgumentError: If there is none.
        """
        if not 0 <= index < self.num_blocks:
            raise InvalidArgumentError(
                f"[Program.block] index must be in [0, {self.num_blocks}), got {index}"
            )
        return Block(self, index)

    def current_block(self) -> Block:
        """The block that statements go to: the global one."""
        return self.global_block()

    @property
    def blocks(self) -> list[Block]:
        """All blocks, the global one first."""
        return [Block(self, i) for i in range(self.num_blocks)]

    @property
    def num_blocks(self) -> int:
        """1 and the bodies of branches and loops."""
        return len(self.graph.blocks)

    def list_vars(self) -> Iterator[Variable]:
        """All Variables."""
        yield from list(self.vars.values())

    def all_parameters(self) -> list[ParameterVariable]:
        """The parameters, trainable or not."""
        return [v for v in self.vars.values() if isinstance(v, ParameterVariable)]

    # -- seeds ------------------------------------------------------------------------
    @property
    def random_seed(self) -> int:
        """The seed that every run begins with; 0 lets runs draw from the default
        generator.
        """
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InvalidTypeError(
                f"[Program.random_seed] expected an int, got {type(seed).__name__}"
            )
        self._seed = seed

    def global_seed(self, seed: int = 0) -> None:
        """Set the seed of this program and of those that are made from now on."""
        self.random_seed = seed
        _GlobalSeed.value = seed

    # -- text, copies and files -------------------------------------------------------
    def to_string(self, throw_on_error: bool, with_details: bool = False) -> str:
        """The program as text: its persistable Variables (all of them with_details),
        then its blocks.

        Raises:
            InvalidTypeError: If an argument is no bool.
        """
        for name, value in (
            ("throw_on_error", throw_on_error),
            ("with_details", with_details),
        ):
            if not isinstance(value, bool):
                raise InvalidTypeError(
                    f"[Program.to_string] {name} must be a bool, got "
                    f"{type(value).__name__}"
                )
        shown = [v for v in self.vars.values() if with_details or v.persistable]
        lines = [v.to_string() for v in shown]
        lines += [
            f"{i.name} = {i.kind}(shape={list(i.shape)}, dtype={i.dtype})"
            for i in self.initializations
        ]
        return "\n".join([*lines, str(self.graph)])

    def __str__(self) -> str:
        return self.to_string(True)

    __repr__ = object.__repr__

    def clone(self, for_test: bool = False) -> Program:
        """A copy, whose Variables have the names of this one's.

        What the program computes is copied, gradients and steps included, but not how
        it is differentiated: record gradients before, or in the program itself.

        Args:
            for_test: Leave out what computes gradients and updates parameters, and let
                dropout and batch normalization do what they do after training.
        """
        return copy_into(Program(), self, for_test)

    def serialize_to_string(self) -> bytes:
        """The program as bytes, without values of the scope, initial values and
        schedules of learning rates.
        """
        return to_string(self)

    @property
    def desc(self) -> Program:
        """What has `serialize_to_string`: the program itself."""
        return self

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """The program of `serialize_to_string`.

        Raises:
            InvalidArgumentError: If the bytes are others.
        """
        return read_into(Program(), binary_str)

    def state_dict(
        self, mode: str = "all", scope: Scope | None = None
    ) -> dict[str, Tensor]:
        """The values of persistable Variables, by name.

        Args:
            mode: "param" for parameters, "opt" for the other ones, "all" for both.
            scope: Where they are; the current scope if None.

        Raises:
            InvalidArgumentError: If mode is another text.
        """
        if mode not in ("all", "param", "opt"):
            raise InvalidArgumentError(
                f"[Program.state_dict] mode must be 'all', 'param' or 'opt', got "
                f"{mode!r}"
            )
        held = scope or global_scope()
        found = {}
        for name, variable in self.vars.items():
            is_parameter = isinstance(variable, ParameterVariable)
            if not variable.persistable or mode == ("opt" if is_parameter else "param"):
                continue
            entry = held.find_var(name)
            if entry is not None and entry.tensor is not None:
                found[name] = entry.tensor.detach()
        return found

    def set_state_dict(
        self, state_dict: Mapping[str, TensorLike], scope: Scope | None = None
    ) -> None:
        """Let the scope hold these values for persistable Variables; names that the
        program lacks are passed over with a warning.

        Raises:
            InvalidTypeError: If state_dict is no mapping.
            InvalidArgumentError: If a value has another shape than its Variable.
        """
        import warnings

        if not isinstance(state_dict, Mapping):
            raise InvalidTypeError(
                "[Program.set_state_dict] state_dict must be a dict, got "
                f"{type(state_dict).__name__}"
            )
        for name, value in state_dict.items():
            variable = self.vars.get(name)
            if variable is None or not variable.persistable:
                warnings.warn(
                    f"[Program.set_state_dict] the program has no persistable {name!r}",
                    stacklevel=2,
                )
                continue
            variable.set_value(value, scope)


class _GlobalSeed:
    value = 0
