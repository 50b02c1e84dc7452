"""Symbolic tensors -> Program: what the dispatcher calls for ops on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from proa import _core
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.errors.locations import user_place
from proa.ir.body import Body
from proa.ir.builder import make_node
from proa.ir.program import Array, Block, Node, Program, Value

#: Held while a program is recorded: parameters represent inputs meanwhile, so that
#: recordings of several threads take turns.
_lock = threading.RLock()


class _Marks(threading.local):
    depth = 0
    graphs = 0
    recorder: Recorder | None = None


_marks = _Marks()


def is_in_graph() -> bool:
    """Whether this thread records a graph, or calls a function in a graph's place."""
    return _marks.graphs > 0


@contextmanager
def in_graph() -> Iterator[None]:
    """While open, what this thread calls is part of a graph."""
    _marks.graphs += 1
    try:
        yield
    finally:
        _marks.graphs -= 1


@contextmanager
def marked_low() -> Iterator[None]:
    """While open, nodes recorded by this thread get the mark `low`."""
    _marks.depth += 1
    try:
        yield
    finally:
        _marks.depth -= 1


def dtype_name(tensor: Any) -> str:
    """``float32`` of a tensor, array or dtype."""
    dtype = getattr(tensor, "dtype", tensor)
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def to_array(tensor: Any) -> Array:
    """The tensor's elements as IR holds them (bfloat16 as its bits); shares memory."""
    return np.asarray(tensor.numpy())


def to_tensor(array: Array, dtype: str) -> Any:
    """The inverse of `to_array`; shares memory but for bfloat16."""
    if dtype == "bfloat16":
        wide = (array.astype(np.uint32) << 16).view(np.float32)
        return _core.ops.cast(_core.from_numpy(wide, True), dtype="bfloat16")
    return _core.from_numpy(array, False)


@dataclass
class CapturedTensor:
    """A plain tensor that was read while a program was recorded.

    Attributes:
        tensor: The tensor, with a reference, so that no other gets its id.
        value: The constant or parameter that has its elements.
        version: Version of the tensor when it was read.
        is_temporary: Whether it was made while the program was recorded, so that a call
            of the recorded function makes another one.
    """

    tensor: Any
    value: Value
    version: int
    is_temporary: bool


class Recorder:
    """Collects the ops called on symbolic tensors into `program`.

    Args:
        names: Structured names of tensors (by id) that are to become parameters; other
            concrete tensors become constants.
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self.program = Program()
        self.names = dict(names or {})
        #: The plain tensors that were read, by id.
        self.captured: dict[int, CapturedTensor] = {}
        #: Tensors of lower creation epochs were made before the recording.
        self.epoch = 0
        #: Bodies of control flow that are being recorded, the outermost first.
        self.bodies: list[Body] = []
        #: Where gradients flow through bodies: runs a block of the program on tensors.
        self.run_block: Callable[[Program, int, Sequence[Any]], list[Any]] | None = None
        #: How many of the bodies are loops'.
        self.loops = 0
        #: Whether bodies must not read what takes a gradient: they are on no tape.
        self.needs_tape = False
        self._ended: set[Value] = set()
        self._changed: dict[int, tuple[Any, Any, bool]] = {}

    @property
    def block(self) -> Block:
        """Where nodes are added."""
        return self.bodies[-1].block if self.bodies else self.program.main

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Any:
        """A symbolic tensor that is an input of the program."""
        value = Value(name, dtype, tuple(shape), "input")
        self.program.main.inputs.append(value)
        self.program.reserve(name)
        return self.symbol(value)

    def symbol(self, value: Value) -> Any:
        """A symbolic tensor that represents the value."""
        return _core.symbol(list(value.shape), value.dtype, (self, value))

    def value_of(self, tensor: Any) -> Value:
        """The value of a symbolic tensor, or the constant of a concrete one."""
        handle = getattr(tensor, "_handle", None)
        if handle is not None:
            recorder: Recorder = handle[0]
            value: Value = handle[1]
            if recorder is not self:
                raise InvalidArgumentError(
                    "[record] symbolic tensors must belong to the program being "
                    f"recorded, got {value} of another"
                )
            return self._inside(tensor, value)
        known = self.captured.get(id(tensor))
        version: int = tensor.inplace_version
        if known is not None and known.version == version:
            return known.value
        data, dtype = to_array(tensor), dtype_name(tensor)
        name = self.names.get(id(tensor))
        if name is None:
            value = self.program.constant(np.array(data), dtype)
        else:
            value = Value(name, dtype, data.shape, "param", data)
            self.program.reserve(name)
        is_temporary = tensor._epoch >= self.epoch
        captured = CapturedTensor(tensor, value, version, is_temporary)
        self.captured[id(tensor)] = captured
        return value

    def enter(self, tensor: Any) -> Value:
        """The value of a tensor that a body is to be given."""
        return self.value_of(tensor)

    def _inside(self, tensor: Any, value: Value) -> Value:
        """What the innermost body has for a symbol's value."""
        if value in self._ended:
            raise UnimplementedError(
                "[record] a tensor made inside a branch or loop must be returned from "
                f"it to be read after it, got {value}"
            )
        for body in reversed(self.bodies):
            if value in body.own:  # for those around it, it is made when that body ends
                break
            body.see(tensor, value)
        return self.local(value)

    def local(self, value: Value) -> Value:
        """What the innermost body has for a value of a block around it."""
        return self.bodies[-1].local(value) if self.bodies else value

    @contextmanager
    def body(self) -> Iterator[Body]:
        """While open, nodes are added to a block of their own."""
        body = Body(self.program)
        self.bodies.append(body)
        before = _core.set_binds_changes(True)
        try:
            yield body
        finally:
            _core.set_binds_changes(before)
            self.bodies.pop()
            self._ended |= body.own

    def bind(self, tensor: Any) -> None:
        """Let a plain tensor, which is about to change, represent its constant until
        `release`.
        """
        value = self.value_of(tensor)
        stop = tensor.stop_gradient
        before = _core.bind_symbol(tensor, (self, value))
        self._changed[id(tensor)] = tensor, before, stop

    def release(self) -> None:
        """Make every bound tensor what it was."""
        for tensor, before, stop in self._changed.values():
            _core.release_symbol(tensor, before, stop)

    def rebind(self, tensor: Any, value: Value) -> None:
        """Let a symbol represent another value."""
        _core.rebind_symbol(tensor, self.symbol(value))

    @property
    def has_companions(self) -> bool:
        """Whether any tensor has companions."""
        return False

    def companions(self, tensor: Any) -> list[Any]:
        """Tensors that go with one through branches and loops, as its lengths do."""
        return []

    def accompany(self, tensor: Any, companions: Sequence[Any]) -> None:
        """Let a tensor have companions."""

    def append(self, node: Node) -> None:
        """Add a node where the recording is."""
        node.location, node.low = user_place(), _marks.depth > 0
        self.block.nodes.append(node)
        if self.bodies:
            self.bodies[-1].own.update(node.outputs)

    def __call__(
        self, op: str, inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> list[Any]:
        """Append a node; its outputs as symbolic tensors. The dispatcher's hook."""
        values = [None if t is None else self.value_of(t) for t in inputs]
        node = make_node(self.program, op, values, dict(attrs))
        self.append(node)
        return [self.symbol(v) for v in node.outputs]


@contextmanager
def at_once() -> Iterator[None]:
    """While open, what this thread does to plain tensors is done, not recorded."""
    builds = _core.set_builds_here(False)
    try:
        if not _core.is_recording():
            yield
            return
        binder = _core.set_binder(None, False)
        changes = _core.set_binds_changes(False)
        try:
            yield
        finally:
            _core.set_binds_changes(changes)
            _core.set_binder(binder, True)
    finally:
        _core.set_builds_here(builds)


def another_thread_records() -> bool:
    """Whether a thread other than this one records."""
    if _lock.acquire(blocking=False):
        _lock.release()
        return False
    return True


def await_recording() -> bool:
    """Wait until no other thread records. Whether one did."""
    if not another_thread_records():
        return False
    with _lock:
        return True


_core.set_await_recording(await_recording)


class _Static:
    #: Gives the recorder of the program that a thread builds statement by statement.
    recorder: Callable[[], Recorder] | None = None


def set_static_recorder(get: Callable[[], Recorder] | None) -> None:
    """Let operators on symbols, and operators without arrays, go to the recorder that
    `get` gives, in all threads that record nothing else; None ends it.
    """
    _Static.recorder = get
    if get is None:
        _core.set_static_recorder(None, None)
        return
    current = get
    _core.set_static_recorder(
        lambda op, inputs, attrs: current()(op, inputs, attrs),
        lambda tensor: current().bind(tensor),
    )


def current_recorder() -> Recorder | None:
    """What this thread's operators on symbols go to."""
    if _marks.recorder is not None or _Static.recorder is None:
        return _marks.recorder
    return _Static.recorder()


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """While open, ops on symbolic tensors, and all that draw random numbers, go to the
    recorder; gradients are off.
    """
    with _lock, in_graph():
        before = _core.set_recorder(recorder)
        recorder.epoch = _core.begin_epoch()
        enabled = _core.set_grad_enabled(False)
        binder = _core.set_binder(recorder.bind, True)
        outer, _marks.recorder = _marks.recorder, recorder
        builds = _core.set_builds_here(False)
        try:
            yield recorder
        finally:
            _core.set_builds_here(builds)
            _marks.recorder = outer
            _core.set_binder(binder, binder is not None)
            _core.set_grad_enabled(enabled)
            _core.set_recorder(before)
            recorder.release()
