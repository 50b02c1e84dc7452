"""Function -> Program, by calling it once on symbolic tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proa.base.observers import observing_layers
from proa.ir import Program, verify
from proa.ir.attributes import draws
from proa.ir.flow import outline
from proa.ir.record import CapturedTensor, Recorder, recording, to_array
from proa.jit.capture import ConstantGuard, GraphBreak, LayerGuard
from proa.jit.convert import recordable
from proa.jit.input_spec import InputSpec
from proa.jit.pytree import flatten, hidden_tensor, is_tensor


@dataclass
class Trace:
    """A function that only computes results, with the tensors it reads as constants.

    Attributes:
        program: What it computes.
        treedef: How its outputs make the function's result.
        captured: The constants that are tensors made before the recording.
        guard: Checks that those made while it was recorded have not changed.
        layer_guard: Checks that the Layers called are what they were.
    """

    program: Program
    treedef: Any
    captured: list[CapturedTensor]
    guard: ConstantGuard
    layer_guard: LayerGuard

    @property
    def is_repeatable(self) -> bool:
        """Whether a run does what the next one should: it draws no random numbers."""
        return not any(draws(n.op, n.attrs) for n in self.program.nodes())

    def check_guards(self) -> bool:
        """Whether the function would still do what was recorded."""
        return self.layer_guard.check() and self.guard.check()

    def refresh_constants(self) -> bool:
        """Read the captured tensors that have changed again. Whether any had."""
        changed = False
        for c in self.captured:
            version: int = c.tensor.inplace_version
            if c.version != version:
                c.version, c.value.data = version, to_array(c.tensor)
                changed = True
        return changed


def owner_of(function: Any) -> Any:
    """The Layer that the function or Layer belongs to, or None."""
    for thing in (function, getattr(function, "__self__", None)):
        # By its class: a `forward` that is a static function looks up its owner here.
        if hasattr(type(thing), "named_parameters") and hasattr(type(thing), "forward"):
            return thing
    return None


def tensor_names(owner: Any) -> dict[int, str]:
    """Structured names of a Layer's parameters and buffers, by id."""
    if owner is None:
        return {}
    pairs = list(owner.named_parameters())
    if hasattr(owner, "named_buffers"):
        pairs += list(owner.named_buffers())
    return {id(tensor): name for name, tensor in pairs if tensor is not None}


def input_names(function: Callable[..., Any], specs: Sequence[InputSpec]) -> list[str]:
    """Names for the inputs: the specs' own, the function's parameters', or x0."""
    try:
        parameters = [
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    names: dict[str, None] = {}
    for i, spec in enumerate(specs):
        known = parameters[i] if i < len(parameters) else f"x{i}"
        name = spec.name or known
        while name in names:
            name += f"_{i}"
        names[name] = None
    return list(names)


def check_result(leaves: Sequence[Any], treedef: Any, result: Any) -> None:
    """Raise GraphBreak unless a graph can give what a function returned."""
    if not leaves:
        raise GraphBreak(f"the function returns no tensors, but {result!r}")
    if hidden_tensor(treedef):
        raise GraphBreak(f"the function returns tensors inside an object: {result!r}")


def trace(
    function: Callable[..., Any],
    arguments: Any,
    specs: Sequence[InputSpec],
    *,
    owner: Any = None,
    names: Sequence[str] | None = None,
) -> Trace:
    """Call the function once with symbolic tensors and note what it computes.

    Args:
        function: What to call.
        arguments: Maps the symbolic tensors (a list) to (args, kwargs).
        specs: One for each symbolic tensor.
        owner: The Layer whose parameters keep their names.
        names: Names of the inputs.

    Raises:
        GraphBreak: If the function returns what no graph can.
    """
    recorder = Recorder(tensor_names(owner))
    layers: dict[int, Any] = {} if owner is None else {id(owner): owner}
    depth = 0

    @contextmanager
    def observe_layer(layer: Any) -> Iterator[None]:
        nonlocal depth
        if depth == 0:  # its guard is one of those that it calls too
            layers[id(layer)] = layer
        depth += 1
        try:
            yield
        finally:
            depth -= 1

    def collect(result: Any) -> Any:
        leaves, treedef = flatten(result, is_tensor)
        check_result(leaves, treedef, result)
        recorder.program.main.outputs = [recorder.value_of(t) for t in leaves]
        return treedef

    with recording(recorder), observing_layers(observe_layer):
        symbols = [
            recorder.input(name, spec.dtype, spec.shape)
            for name, spec in zip(
                names or input_names(function, specs), specs, strict=True
            )
        ]
        args, kwargs = arguments(symbols)
        treedef = recordable(function, collect)(*args, **kwargs)
    outline(recorder.program)
    verify(recorder.program)
    captured = recorder.captured.values()
    return Trace(
        recorder.program,
        treedef,
        [c for c in captured if not c.is_temporary],
        ConstantGuard(c for c in captured if c.is_temporary),
        LayerGuard(list(layers.values()), []),
    )
