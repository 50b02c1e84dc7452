"""Recording what a function does to tensors that are not its arguments.

While a function is recorded, the parameters and buffers of the Layers it calls, and any
other tensor that it changes or differentiates by, become inputs of the program. What
the function leaves in them becomes outputs that a run writes back.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import is_
from typing import Any

from proa import _core
from proa.base.observers import observing_layers, thread_observers
from proa.errors import UnimplementedError
from proa.ir.attributes import draws, row_of
from proa.ir.program import Node, Value
from proa.ir.record import CapturedTensor, Recorder, dtype_name, recording
from proa.jit.runtime_scalars import RuntimeScalars


class Retrace(BaseException):
    """Raised by what is recorded: its caller is to be retraced, in a context.

    No `Exception`, as functions that catch these are not concerned.
    """

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        super().__init__()
        self.context = context


class GraphBreak(BaseException):
    """Raised by what is recorded: the function cannot be a graph and runs as Python.

    No `Exception`, as functions that catch these are not concerned.

    Args:
        reason: What cannot be recorded.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Bound:
    """A tensor that represents an input while a program is recorded.

    Attributes:
        tensor: The tensor, a symbol until it is released.
        before: Its memory, under a plain tensor.
        value: The input.
        grad_of: The parameter whose gradient it is, or None.
        found_grad: The gradient that it had.
        first_grad: The same, dense, which represents an input too.
    """

    __slots__ = (
        "before", "first_grad", "first_zero", "found_grad", "grad_of", "stop_gradient",
        "tensor", "value",
    )  # fmt: skip

    def __init__(self, tensor: Any, value: Value, before: Any, grad_of: Any) -> None:
        self.tensor, self.value, self.before = tensor, value, before
        self.grad_of = grad_of
        self.stop_gradient: bool = before.stop_gradient
        self.found_grad: Any = None
        self.first_grad: Any = None
        #: Whether its gradient was cleared to zeros, which have no memory.
        self.first_zero = False


class Capture(Recorder):
    """A recorder that binds tensors and watches Layers and optimizers.

    Args:
        names: Structured names of tensors, by id.
        is_last: Whether `Retrace` must not be raised any more.
    """

    def __init__(
        self, names: dict[int, str] | None = None, is_last: bool = False
    ) -> None:
        super().__init__(names)
        self.is_last = is_last
        self.bound: dict[int, Bound] = {}
        self.layers: list[Any] = []
        #: By id, these and all below them, and whether they are in `layers`.
        self._layers: dict[int, tuple[Any, bool]] = {}
        self.scalars = RuntimeScalars()
        #: By id, weights that an optimizer steps, with arguments of `record_step`.
        self._steps: dict[int, tuple[Any, Any]] = {}

    # -- tensors ----------------------------------------------------------------------
    def bind(self, tensor: Any, grad_of: Any = None) -> None:
        """Let a plain tensor represent an input until `release`."""
        if id(tensor) in self.bound or tensor._is_symbolic:
            return
        if not tensor.is_leaf:
            raise UnimplementedError(
                "[to_static] tensors that take a gradient must be arguments or leaves, "
                f"got the result of {tensor.grad_fn} from outside"
            )
        name = self.names.get(id(tensor)) or self.program.new_name("state")
        dtype, shape = dtype_name(tensor), tuple(tensor.shape)
        known = self.captured.pop(id(tensor), None)  # as a constant, before it changed
        if known is None or known.version != tensor.inplace_version:
            value = Value(name, dtype, shape, "input")
        else:
            value = known.value
        value.kind, value.data = "input", None
        stop = tensor.stop_gradient
        before = _core.bind_symbol(tensor, (self, value))
        bound = Bound(tensor, value, before, grad_of)
        bound.stop_gradient = stop
        self.bound[id(tensor)] = bound
        self.program.main.inputs.append(value)
        if grad_of is None and not stop:
            bound.first_grad = bound.found_grad = tensor._held_grad
            bound.first_zero = tensor._zero_grad
            if bound.found_grad is not None:
                if _core.row_sparse_parts(bound.found_grad) is not None:
                    # Its number of rows may differ from run to run.
                    bound.first_grad = tensor.grad = _core.ops.assign(bound.found_grad)
                self.bind(bound.first_grad, grad_of=tensor)

    def release(self) -> None:
        """Make every bound tensor what it was."""
        for bound in self.bound.values():
            _core.release_symbol(bound.tensor, bound.before, bound.stop_gradient)
            if bound.grad_of is None:
                bound.tensor.grad = bound.found_grad
                bound.tensor._zero_grad = bound.first_zero
        self.scalars.restore()

    def value_of(self, tensor: Any) -> Value:
        if _core.row_sparse_parts(tensor) is not None:
            tensor = _core.ops.assign(tensor)  # dense
        handle = getattr(tensor, "_handle", None)
        if handle is None and not tensor.stop_gradient:
            self.bind(tensor)
        if self.bodies and self.needs_tape and not tensor.stop_gradient:
            raise GraphBreak("the body of a branch or loop takes gradients")
        return super().value_of(tensor)

    def enter(self, tensor: Any) -> Value:
        if self.needs_tape and not tensor.stop_gradient:
            raise GraphBreak("a loop carries a tensor that takes a gradient")
        return self.value_of(tensor)

    def final(self, bound: Bound) -> Value:
        """What the function leaves in a bound tensor."""
        value: Value = bound.tensor._handle[1]
        return value

    def promote_captured(self) -> None:
        """Make inputs of the plain tensors that were read, except temporaries."""
        for captured in list(self.captured.values()):
            if not captured.is_temporary or captured.tensor.persistable:
                self.bind(captured.tensor)

    # -- Layers, random numbers and optimizers ----------------------------------------
    def observe_layer(self, layer: Any) -> None:
        """Bind the state of a Layer that is called, and of all below."""
        if self._layers.get(id(layer), (None, False))[1]:
            return
        if id(layer) not in self._layers:
            self.layers.append(layer)
            for part in layer.sublayers():
                self._layers.setdefault(id(part), (part, False))
            self._layers[id(layer)] = (layer, True)
        for tensor in state_of(layer):
            self.bind(tensor)

    def __call__(self, op: str, inputs: Any, attrs: Any) -> list[Any]:
        result = super().__call__(op, inputs, attrs)
        node: Node = self.block.nodes[-1]
        random = draws(op, node.attrs)
        if self.bodies and (random or self._steps):
            raise GraphBreak("a branch or loop draws random numbers or steps weights")
        if random:
            self.scalars.record_draw(node)
        if inputs and self._steps and row_of(op).mutates:
            steps = (self._step_of(x) for x in inputs if x is not None)
            step = next((s for s in steps if s is not None), None)
            if step is not None:
                self.scalars.record_step(node, *step)
        return result

    def _step_of(self, weights: Any) -> Any:
        """The arguments of `record_step` for a step of weights, or of rows of them."""
        found = self._steps.get(id(weights))
        if found is not None:
            return found[1]
        taken = weights._handle and weights._handle[1].producer
        if not taken or taken.op != "gather":
            return None
        for table, step in self._steps.values():
            if table._is_symbolic and table._handle[1] is taken.inputs[0]:
                return step
        return None

    @contextmanager
    def _record_steps(self, optimizer: Any, group: Any, params: Any) -> Iterator[None]:
        """While an optimizer's steps of these parameters are recorded."""
        for p in params:
            bound = self.bound.get(id(p))
            if bound is not None:
                optimizer._prepare(p, bound.before)
            master, state = optimizer._master_of(p), optimizer._slot_values(p)
            weights = p if master is None else master
            self.scalars.count_step(state)
            alike = (id(optimizer), id(group), optimizer._rate_of(p, group, 1.0))
            rate = functools.partial(_rate_of, optimizer, group, p)
            self._steps[id(weights)] = (weights, (state, rate, alike))
        stepped = self.scalars.stepped + len(params)
        try:
            yield
        finally:
            self._steps.clear()
        if self.scalars.stepped != stepped:
            raise UnimplementedError(
                f"[to_static] {type(optimizer).__name__} must step each parameter by "
                "an operator that takes the learning rate, got another"
            )

    @contextmanager
    def watching(self) -> Iterator[Capture]:
        """Record what happens, in this thread, on bound tensors and symbols."""

        @contextmanager
        def observe_layer(layer: Any) -> Iterator[None]:
            self.observe_layer(layer)
            yield

        with recording(self), observing_layers(observe_layer):
            self.scalars.watch()
            enabled = _core.set_grad_enabled(True)
            thread_observers.steps.append(self._record_steps)
            try:
                yield self
            finally:
                thread_observers.steps.remove(self._record_steps)
                _core.set_grad_enabled(enabled)


def _rate_of(optimizer: Any, group: Any, p: Any) -> float:
    return float(optimizer._rate_of(p, group, optimizer.get_lr()))


def state_of(layer: Any) -> list[Any]:
    """Parameters and buffers of a Layer and all below."""
    found = [t for _, t in layer.named_parameters() if t is not None]
    if hasattr(layer, "named_buffers"):
        found += [t for _, t in layer.named_buffers() if t is not None]
    return found


class ConstantGuard:
    """Guard on constants: no tensor that a program has as a constant has changed since
    it was read.

    Only tensors that still exist can be read by another call. A view is kept alive:
    its memory may be read through another tensor.
    """

    __slots__ = ("_versions",)

    def __init__(self, constants: Iterable[CapturedTensor]) -> None:
        #: Functions that return a tensor, or None when it is gone; and its version.
        self._versions: list[tuple[Callable[[], Any], int]] = []
        for c in constants:
            same = functools.partial(_same, c.tensor)
            get = same if c.tensor._is_view else weakref.ref(c.tensor)
            self._versions.append((get, c.version))

    def check(self) -> bool:
        """Whether nothing has changed."""
        self._versions = [known for known in self._versions if known[0]() is not None]
        return all(get().inplace_version == version for get, version in self._versions)


def _same(tensor: Any) -> Any:
    return tensor


class LayerGuard:
    """Guard on Layers: their modes, tensors and sublayers are what they were when this
    was made, and so is which tensors (theirs and `loose` ones) take a gradient.
    """

    __slots__ = ("_foreign", "_slots", "_stops", "_tables")

    def __init__(self, layers: list[Any], loose: list[tuple[Any, bool]]) -> None:
        #: (table, its values); (attributes, name, value); (tensor, stop_gradient).
        tables: list[tuple[Any, tuple[Any, ...]]] = []
        slots: list[tuple[dict[str, Any], str, Any]] = []
        stops = list(loose)
        #: No Layers of ours, but like one: (layer, mode, tensors).
        self._foreign: list[tuple[Any, Any, list[Any]]] = []
        left = list(layers)
        while left:
            layer = left.pop()
            d = layer.__dict__
            # What jit.load returns has parameters, but is no Layer of Proa.
            own = d.get("_parameters") if "_sub_layers" in d else None
            tensors = state_of(layer) if own is None else list(own.values())
            stops += [(t, t.stop_gradient) for t in tensors if t is not None]
            if own is None:
                self._foreign.append((layer, d.get("training"), tensors))
                continue
            slots += [(d, name, d.get(name)) for name in ("training", "_parameters")]
            for table in (own, d["_buffers"], d["_sub_layers"]):
                tables.append((table, tuple(table.values())))
            left += [part for part in d["_sub_layers"].values() if part is not None]
        self._tables, self._slots = tuple(tables), tuple(slots)
        self._stops = tuple(stops)

    def check(self) -> bool:
        """Whether nothing has changed."""
        if not _core.unchanged(self._tables, self._slots, self._stops):
            return False
        for layer, mode, tensors in self._foreign:
            found = state_of(layer)
            if layer.__dict__.get("training") != mode or len(found) != len(tensors):
                return False
            if not all(map(is_, found, tensors)):
                return False
        return True
