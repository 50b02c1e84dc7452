"""A function recorded with what it does to parameters, buffers and gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proa import _core
from proa.errors import UnimplementedError
from proa.ir.flow import has_flow, outline
from proa.ir.program import Program, Value
from proa.ir.record import CapturedTensor, to_array
from proa.jit.capture import (
    Bound,
    Capture,
    ConstantGuard,
    GraphBreak,
    LayerGuard,
    Retrace,
    state_of,
)
from proa.jit.convert import recordable
from proa.jit.input_spec import InputSpec
from proa.jit.pytree import flatten, is_tensor
from proa.jit.runtime_scalars import RuntimeScalars
from proa.jit.trace import Trace, check_result, input_names, tensor_names

#: The values that make a gradient: none if there is none, one, or the rows and the
#: values of a row-sparse one.
Gradient = tuple[Value, ...]


def gradient_of(capture: Capture, grad: Any) -> Gradient:
    """The values of a gradient that was recorded."""
    if grad is None:
        return ()
    found = _core.row_sparse_parts(grad)
    if found is None:
        return (capture.value_of(grad),)
    return tuple(capture.value_of(part) for part in found)


@dataclass
class Source:
    """Where a run finds an input that is no argument.

    The tensor itself, or if `of_grad` the gradient of the tensor.
    """

    tensor: Any
    of_grad: bool = False
    stop_gradient: bool = True

    def read(self) -> Any:
        """The tensor to read in this run."""
        if not self.of_grad:
            return self.tensor
        grad = self.tensor.grad
        if grad is None or _core.row_sparse_parts(grad) is None:
            return grad
        return _core.ops.assign(grad)


@dataclass
class Recording:
    """What a recorded function computes.

    Attributes:
        program: Its inputs are the arguments, then `sources`. Forward, then backward.
        results: What the function returns, leaf by leaf.
        treedef: How leaves make the function's result.
        sources: The inputs that are no arguments.
        stores: Values that a run leaves in inputs.
        grads: Parameters with the gradients that a run leaves in them.
        zeroed: Parameters whose gradients a run leaves cleared to zeros.
        seeds: Inputs that represent gradients of results, each with its result's index.
        wanted: Inputs whose gradients follow, with those gradients.
        scalars: Values that differ between runs.
        layers: The Layers seen.
        guard: Checks that they are still what the recording was made for.
        constant_guard: Checks that tensors made while the function was recorded, which
            are constants of the program, have not changed.
    """

    program: Program
    results: list[Value]
    treedef: Any
    sources: dict[Value, Source]
    stores: list[tuple[Value, Value]]
    grads: list[tuple[Any, Gradient]]
    zeroed: list[Any]
    seeds: dict[Value, int]
    wanted: list[tuple[Value, Gradient]]
    scalars: RuntimeScalars
    layers: list[Any]
    guard: LayerGuard
    constant_guard: ConstantGuard
    #: Gradients that the recording depends on, as `_found_grads` has them.
    added: list[Any]
    read: list[tuple[Any, bool, bool]]

    @property
    def is_repeatable(self) -> bool:
        """Whether all that differs between runs, random numbers too, is an input."""
        return not self.scalars.has_own_key

    @property
    def is_plain(self) -> bool:
        """Whether a run does nothing but compute results from what it reads."""
        effects = self.stores or self.grads or self.zeroed or self.wanted or self.layers
        return not (effects or self.scalars.drawn)

    def as_trace(self) -> Trace:
        """A plain recording with what it reads as constants."""
        block = self.program.main
        for value, source in self.sources.items():
            value.kind, value.data = "const", to_array(source.tensor)
        block.inputs = [v for v in block.inputs if v not in self.sources]
        block.outputs = list(self.results)
        outline(self.program)
        constants = [
            CapturedTensor(s.tensor, value, s.tensor.inplace_version, False)
            for value, s in self.sources.items()
        ]
        return Trace(
            self.program, self.treedef, constants, self.constant_guard, self.guard
        )

    def check_guards(self) -> bool:
        """Whether the function would still do what was recorded."""
        if not (self.guard.check() and self.constant_guard.check()):
            return False
        if not _core.hold_no_grads(self.added):
            return False
        for p, had, is_zero in self.read:
            if (p._held_grad is not None) != had or p._zero_grad is not is_zero:
                return False
        return True


def _left_grads(
    capture: Capture,
) -> tuple[list[tuple[Any, Gradient]], list[Any]]:
    """What the function leaves as gradients, where that is not what it found, and whose
    gradients it leaves cleared to zeros.
    """
    left: list[tuple[Any, Gradient]] = []
    zeroed: list[Any] = []
    for bound in capture.bound.values():
        if bound.grad_of is not None:
            continue
        tensor, grad = bound.tensor, bound.tensor._held_grad
        had = bound.first_grad is not None
        if grad is None:
            result = had or tensor._grad_added
            if tensor._zero_grad and result:
                zeroed.append(tensor)
            elif not tensor._zero_grad and (result or bound.first_zero):
                left.append((tensor, ()))
        elif _is_recorded(grad):
            value = gradient_of(capture, grad)
            first = capture.bound.get(id(bound.first_grad))
            if first is None or value != (first.value,):
                left.append((tensor, value))
        elif grad is not bound.first_grad:
            raise UnimplementedError(
                "[to_static] expected gradients that are computed from the "
                f"arguments, got one of {bound.value} that is not"
            )
    return left, zeroed


def _is_recorded(grad: Any) -> bool:
    found = _core.row_sparse_parts(grad) or (grad,)
    return any(part._is_symbolic for part in found)


def _found_grads(capture: Capture) -> tuple[list[Any], list[tuple[Any, bool, bool]]]:
    """The gradients that the recording depends on: parameters without any, or cleared
    to zeros, which is the same to what is added; and (parameter, whether it has one
    with memory, whether it is cleared) of those that were read or had one.
    """
    added, read = [], []
    for b in capture.bound.values():
        if b.grad_of is not None or b.stop_gradient:
            continue
        if b.tensor._grad_read or b.first_grad is not None:
            read.append((b.tensor, b.first_grad is not None, b.first_zero))
        elif b.tensor._grad_added:
            added.append(b.tensor)
    return added, read


def _outer_grads(
    capture: Capture, leaves: Sequence[Any], symbols: Sequence[Any]
) -> tuple[dict[Value, int], list[tuple[Value, Gradient]]]:
    """Record the gradients of what the function returns."""
    roots = [i for i, t in enumerate(leaves) if not t.stop_gradient]
    bound = [
        b.tensor
        for b in capture.bound.values()
        if b.grad_of is None and not b.stop_gradient
    ]
    wanted = [t for t in (*symbols, *bound) if not t.stop_gradient and t.is_leaf]
    if not roots or not wanted:
        return {}, []
    seeds: dict[Value, int] = {}
    given = []
    for i in roots:
        value = capture.value_of(leaves[i])
        name = capture.program.new_name("gradient")
        given.append(capture.input(name, value.dtype, value.shape))
        seeds[capture.value_of(given[-1])] = i
    found = _core.grad(
        [leaves[i] for i in roots], wanted, given, False, False, True, True
    )
    pairs = [
        (capture.value_of(t), gradient_of(capture, g))
        for t, g in zip(wanted, found, strict=True)
    ]
    return seeds, pairs


def record(
    function: Callable[..., Any],
    arguments: Any,
    specs: Sequence[InputSpec],
    stops: Sequence[bool],
    *,
    owner: Any = None,
) -> Recording:
    """Call the function once with symbols and note all that it does.

    Args:
        function: What to call.
        arguments: Maps the symbols (a list) to (args, kwargs).
        specs: One for each symbol: its shape and dtype.
        stops: Likewise, whether no gradient flows to it.
        owner: The Layer that the function belongs to.

    Raises:
        GraphBreak: If control flow is where gradients or state do, or the function
            returns what no graph can and changes no tensor.
    """
    known = tensor_names(owner)
    given = (function, arguments, specs, stops, owner)
    try:
        return _record(Capture(known), *given)
    except Retrace as again:
        with again.context:
            return _record(Capture(known, is_last=True), *given)


def _record(
    capture: Capture,
    function: Callable[..., Any],
    arguments: Any,
    specs: Sequence[InputSpec],
    stops: Sequence[bool],
    owner: Any,
) -> Recording:
    wants_grad = _core.is_grad_enabled()
    with capture.watching():
        _core.set_grad_enabled(wants_grad)
        symbols = []
        names = input_names(function, specs)
        for name, spec, stop in zip(names, specs, stops, strict=True):
            symbols.append(capture.input(name, spec.dtype, spec.shape))
            symbols[-1].stop_gradient = stop
        if owner is not None:
            capture.observe_layer(owner)
        args, kwargs = arguments(symbols)
        collect = functools.partial(_collect, capture, symbols)
        recording: Recording = recordable(function, collect)(*args, **kwargs)
    _finish(recording, capture)
    if has_flow(recording.program) and (owner is not None or not recording.is_plain):
        raise GraphBreak("a step has branches or loops")  # its engine runs one block
    return recording


def _collect(capture: Capture, symbols: list[Any], result: Any) -> Recording:
    leaves, treedef = flatten(result, is_tensor)
    if leaves:
        check_result(leaves, treedef, result)
    arguments = capture.program.main.inputs[: len(symbols)]
    added, read = _found_grads(capture)
    grads, zeroed = _left_grads(capture)
    stepped = bool(grads or zeroed) or capture.scalars.has_steps
    seeds: dict[Value, int] = {}
    wanted: list[tuple[Value, Gradient]] = []
    if not stepped and _core.is_grad_enabled():
        seeds, wanted = _outer_grads(capture, leaves, symbols)
    results = [capture.value_of(t) for t in leaves]
    stores = [
        (capture.final(b), b.value)
        for b in capture.bound.values()
        if b.grad_of is None and capture.final(b) is not b.value
    ]
    for symbol, first in zip(symbols, arguments, strict=True):
        if capture.value_of(symbol) is not first:  # changed in place
            stores.append((capture.value_of(symbol), first))
    if not stores and not grads and not zeroed:
        check_result(leaves, treedef, result)
    del result
    capture.promote_captured()
    return Recording(
        program=capture.program,
        results=results,
        treedef=treedef,
        sources={},
        stores=stores,
        grads=grads,
        zeroed=zeroed,
        seeds=seeds,
        wanted=wanted,
        scalars=capture.scalars,
        layers=capture.layers,
        guard=LayerGuard([], []),
        constant_guard=ConstantGuard(capture.captured.values()),
        added=added,
        read=read,
    )


def _source(bound: Bound) -> Source:
    if bound.grad_of is not None:
        return Source(bound.grad_of, True, bound.grad_of.stop_gradient)
    return Source(bound.tensor, False, bound.stop_gradient)


def _finish(recording: Recording, capture: Capture) -> None:
    recording.sources = {b.value: _source(b) for b in capture.bound.values()}
    owned = {id(t) for layer in capture.layers for t in state_of(layer)}
    loose = [
        (b.tensor, b.stop_gradient)
        for b in capture.bound.values()
        if b.grad_of is None and b.tensor.is_leaf and id(b.tensor) not in owned
    ]
    recording.guard = LayerGuard(capture.layers, loose)
