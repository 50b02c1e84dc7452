"""A live Layer that loses channels: parameters, attributes, the optimizer's state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.errors import Error, PreconditionNotMetError
from proa.ir.program import Node, Program, Value
from proa.ir.record import dtype_name, to_array, to_tensor
from proa.runtime import replace_memory
from proa.static import InputSpec
from proa_slim.analysis.recorded import RecordedNetwork
from proa_slim.prune.dependency import DependencyGraph, Group, layer_of, sliced
from proa_slim.prune.flow import described
from proa_slim.prune.resizing import Attributes, put_back, resize
from proa_slim.prune.units import Remaining

Masks = list["NDArray[np.bool_] | None"]


@dataclass
class Undo:
    """What a removal replaced."""

    tensors: list[tuple[Any, Any]]
    attributes: list[tuple[proa.nn.Layer, Attributes]]


class PrunableNetwork:
    """A network and its dependency graph.

    Args:
        network: Is changed by `remove`.
        specs: Specs of its inputs.

    Attributes:
        graph: Groups of channels; what the network's own code does not allow to shrink
            (sizes written as numbers in it) is among `graph.skipped`.

    Raises:
        PreconditionNotMetError: If nothing can be removed.
    """

    def __init__(self, network: proa.nn.Layer, specs: Sequence[InputSpec]) -> None:
        self.network, self.specs = network, list(specs)
        self._record()

    def _record(self) -> None:
        recorded = RecordedNetwork(self.network, self.specs)
        self.tensors = recorded.tensors
        self.graph = DependencyGraph(recorded.program, recorded.tensors)
        self._note_unread()
        #: Units of which numbers in the network's own Layers are taken to be sizes.
        self._with_numbers: set[int] = set()
        self._settle(list(self.graph.groups))
        if not self.graph.groups:
            raise PreconditionNotMetError(
                "[prune] expected a network with channels that can be removed, got "
                f"none: {self.graph.skipped}"
            )

    def _note_unread(self) -> None:
        known = {id(tensor) for tensor in self.tensors.values()}
        for name, parameter in self.network.named_parameters():
            if id(parameter) not in known and len(parameter.shape) > 1:
                reason = "is not used in evaluation mode"
                self.graph.skipped.setdefault(layer_of(name), reason)

    # -- what the code of the network refuses ------------------------------------------
    def _settle(self, groups: list[Group]) -> None:
        """Find the groups that the code of the network does not let shrink: it cannot
        be recorded again without a unit of them, or computes something else.
        """
        problem = self._problem(groups)
        if problem is None or not groups:
            return
        if len(groups) > 1:
            half = len(groups) // 2
            self._settle(groups[:half])
            self._settle(groups[half:])
            return
        self._with_numbers.update(groups[0].units)
        if self._problem(groups) is not None:
            self._with_numbers.difference_update(groups[0].units)
            reason = f"the code of the network does not allow it: {problem}"
            self.graph.leave(groups[0], reason)

    def _problem(self, groups: Sequence[Group]) -> str | None:
        """Why the network cannot do without the last unit of each group."""
        removed = {group.units[-1] for group in groups}
        expected = self.graph.rewritten(self.graph.removal(removed))
        undo = self.shrink(removed, is_trial=True)
        problem = self._difference(expected)
        self.restore(undo)
        return problem

    def _difference(self, expected: Program) -> str | None:
        try:
            found = RecordedNetwork(self.network, self.specs).program
        except (Error, ValueError, TypeError, AssertionError) as error:
            return str(error)
        return difference(expected, found)

    # -- removal -----------------------------------------------------------------------
    def remove(self, removed: Iterable[int], optimizer: Any = None) -> Undo:
        """Remove units from the parameters, in place.

        Args:
            removed: Units of the graph.
            optimizer: If given, what it keeps for parameters shrinks with them.

        Raises:
            PreconditionNotMetError: If the code of the network does not allow it; the
                network is then as it was.
            InvalidArgumentError: If an axis would lose all of its indices.
        """
        units = frozenset(removed)
        expected = self.graph.rewritten(self.graph.removal(units))
        undo = self.shrink(units)
        problem = self._difference(expected)
        if problem is not None:
            self.restore(undo)
            raise PreconditionNotMetError(
                "[prune] expected a network whose code follows the sizes of its "
                f"parameters, got one where {problem}"
            )
        if optimizer is not None:
            self._shrink_state(optimizer, units, undo)
        return undo

    def zero(self, removed: Iterable[int]) -> Undo:
        """Set to zero what `remove` would take from parameters."""
        undo = Undo([], [])
        for value, masks in self.graph.masks(self.graph.removal(removed)).items():
            tensor = self.tensors[value]
            if tensor.stop_gradient:  # a buffer
                continue
            array = np.array(to_array(tensor))
            for axis, mask in enumerate(masks):
                if mask is not None:
                    np.moveaxis(array, axis, 0)[~mask] = 0
            undo.tensors.append((tensor, tensor.detach()))
            hold(tensor, to_tensor(array, dtype_name(tensor)))
        return undo

    def restore(self, undo: Undo) -> None:
        """Let the network be as it was before a removal."""
        put_back(undo.attributes)
        for tensor, before in undo.tensors:
            hold(tensor, before)

    def renew(self) -> None:
        """Record the network as it is now."""
        self._record()

    def shrink(self, removed: Collection[int], is_trial: bool = False) -> Undo:
        """Let parameters and attributes lose units, without the check of `remove`; a
        trial leaves elements unset.
        """
        undo, remaining = Undo([], []), self.graph.removal(removed)
        for value, masks in self.graph.masks(remaining).items():
            _replace(self.tensors[value], masks, undo, is_trial)
        undo.attributes = self.resize(removed, {})
        return undo

    def resize(
        self, removed: Collection[int], views: Mapping[int, Any]
    ) -> list[tuple[proa.nn.Layer, Attributes]]:
        """Let attributes of Layers follow parameters that have lost units; what they
        were before, for `put_back`.

        Args:
            removed: Units of the graph.
            views: By the id of a parameter, what Layers read instead of it.
        """
        remaining = self.graph.removal(removed)
        owned = {
            value: id(views.get(id(tensor), tensor))
            for value, tensor in self.tensors.items()
        }
        groups: dict[int, int] = {}
        for node, attributes in self.graph.attributes(remaining).items():
            if "groups" in attributes:
                source = self.graph.flow.source_of(node.inputs[1])
                if source in owned:
                    groups[owned[source]] = attributes["groups"]
        numbers = self._with_numbers.intersection(removed)
        sizes = self._sizes(self.graph.removal(numbers), owned) if numbers else {}
        return resize(self.network, groups, sizes)

    def _sizes(
        self, remaining: Remaining, owned: Mapping[Value, int]
    ) -> dict[int, dict[int, set[int]]]:
        """For each Layer, sizes that change among the weights in it, and in shapes that
        what they compute is given.

        Args:
            owned: Ids of the tensors that Layers read.
        """
        graph, found = self.graph, dict[int, dict[int, set[int]]]()
        by_unit: dict[int, set[tuple[int, int]]] = {}
        for node, attributes in graph.attributes(remaining).items():
            if "shape" not in attributes:
                continue
            for labels, old, new in zip(
                graph.flow.axes[node.outputs[0]],
                node.attrs["shape"],
                attributes["shape"],
                strict=True,
            ):
                if labels is not None and old != new:
                    for unit in graph.resolved.of(labels).tolist():
                        by_unit.setdefault(unit, set()).add((old, new))
        values = {own: value for value, own in owned.items()}
        for layer in [self.network, *self.network.sublayers()]:
            pairs: set[tuple[int, int]] = set()
            for parameter in layer.parameters():
                value = values.get(id(parameter))
                if value is None:
                    continue
                pairs.update(
                    zip(value.shape, graph.shape(value, remaining), strict=True)
                )
                for labels in graph.flow.axes_of(value):
                    if labels is not None and by_unit:
                        for unit in set(graph.resolved.of(labels).tolist()):
                            pairs |= by_unit.get(unit, set())
            own = found.setdefault(id(layer), {})
            for old, new in pairs:
                if old != new:
                    own.setdefault(old, set()).add(new)
        return found

    def _shrink_state(
        self, optimizer: Any, removed: Collection[int], undo: Undo
    ) -> None:
        """Shrink the state of each parameter: it has the name and shape of that."""
        state = optimizer.state_dict()
        masters = state.get("master_weights", {})
        remaining = self.graph.removal(removed)
        for value, masks in self.graph.masks(remaining).items():
            name = self.tensors[value].name
            state_tensors = [masters[name]] if name in masters else []
            state_tensors += [
                tensor
                for key, tensor in state.items()
                if key.startswith(f"{name}_")
                and tuple(getattr(tensor, "shape", ())) == value.shape
            ]
            for tensor in state_tensors:
                _replace(tensor, masks, undo)


def _replace(tensor: Any, masks: Masks, undo: Undo, is_trial: bool = False) -> None:
    before = tensor.detach()  # shares the memory that the tensor gives up
    undo.tensors.append((tensor, before))
    array = to_array(before)
    if is_trial:
        sizes = zip(array.shape, masks, strict=True)
        shape = [n if m is None else int(m.sum()) for n, m in sizes]
        array = np.empty(shape, array.dtype)
    else:
        array = sliced(array, masks)
    hold(tensor, to_tensor(array, dtype_name(tensor)))


def hold(tensor: Any, other: Any) -> None:
    """Let a tensor have the memory and shape of another; it stays the same object."""
    replace_memory(tensor, other)
    if tensor.grad is not None:
        tensor.clear_gradient(set_to_zero=False)


def difference(expected: Program, found: Program) -> str | None:
    """The first node where two programs differ, described; None if none does."""
    ours, theirs = list(expected.main.nodes), list(found.main.nodes)
    for old, new in zip(ours, theirs, strict=False):
        shapes = [v.shape for v in old.outputs], [v.shape for v in new.outputs]
        if old.op != new.op or shapes[0] != shapes[1]:
            return f"{described(new)} gives {shapes[1]} instead of {shapes[0]}"
        if _compared(old) != _compared(new):
            return f"{described(new)} has {new.attrs} instead of {old.attrs}"
    if len(ours) != len(theirs):
        return f"{len(theirs)} operators are recorded instead of {len(ours)}"
    return None


def _compared(node: Node) -> Any:
    """Attributes, those of slices as the bounds that they mean."""
    if node.op != "slice":
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in node.attrs.items()
        }
    x: Value | None = node.inputs[0]
    assert x is not None
    given = zip(
        *(node.attrs[k] for k in ("axes", "starts", "ends", "steps")), strict=True
    )
    return [
        (axis, slice(start, stop, step).indices(x.shape[axis]))
        for axis, start, stop, step in given
        if x.shape[axis] >= 0
    ]
