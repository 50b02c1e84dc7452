"""The dependency graph: groups of channels, and a program with some of them removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.ir.flow import has_flow
from proa.ir.program import Array, Node, Program, Value
from proa.ir.shapes import infer
from proa_slim.analysis.operations import multiply_adds
from proa_slim.prune.flow import Axes, Flow, ParameterAxis, described
from proa_slim.prune.rules import rule_of
from proa_slim.prune.units import Labels, Remaining


@dataclass(frozen=True)
class Group:
    """Channels that are chosen among together: those of one or of several layers.

    Attributes:
        name: Name of the first weight whose output channels they are.
        weights: Those weights, each with the axis that counts output channels.
        units: What can be removed, each one channel (or block of channels) of every
            weight of the group.
    """

    name: str
    weights: tuple[ParameterAxis, ...]
    units: tuple[int, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """Paths of the layers that have the weights."""
        return tuple(dict.fromkeys(layer_of(w.value.name) for w in self.weights))


def layer_of(name: str) -> str:
    """``features.0`` of ``features.0.weight``."""
    return name.rpartition(".")[0] or name


class DependencyGraph:
    """Which channels of a program are removed together.

    Args:
        program: Without control flow.
        parameters: Its inputs and constants that may shrink.

    Attributes:
        groups: In the order of the program.
        skipped: Paths of layers that stay whole, and why.

    Raises:
        UnimplementedError: If the program has branches or loops.
    """

    def __init__(self, program: Program, parameters: Iterable[Value]) -> None:
        if has_flow(program):
            raise UnimplementedError(
                "[prune] expected a network without branches and loops that tensors "
                "decide, got one with them"
            )
        self.program = program
        self.parameters = list(parameters)
        self._analyse()
        self.groups: list[Group] = []
        self.skipped: dict[str, str] = {}
        for weights in self._components():
            units = self._units_of(weights)
            if len(units) > 1:
                name = weights[0].value.name
                self.groups.append(Group(name, tuple(weights), units))
            else:
                for weight in weights:
                    self.skip(weight, self._reason(weight))

    def _analyse(self) -> None:
        """Where a part of a split axis must stay whole, another part may shrink."""
        choices: dict[Node, int] = {}
        while True:
            self.flow = Flow(self.program, self.parameters, rule_of, choices)
            self.resolved = self.flow.units.resolve()
            tried = {
                node: choices.get(node, 0) + 1
                for node, labels, parts in self.flow.splits
                if choices.get(node, 0) + 1 < parts
                and (self.resolved.removable(labels) < 0).all()
            }
            if not tried:
                return
            choices.update(tried)

    # -- groups ------------------------------------------------------------------------
    def units_along(self, value: Value, axis: int) -> Labels:
        """The unit of each index of a parameter's axis; -1 of one that stays."""
        labels = self.flow.axes_of(value)[axis]
        if labels is None:
            return np.full(value.shape[axis], -1)
        return self.resolved.removable(labels)

    def _components(self) -> list[list[ParameterAxis]]:
        """Producers that have units in common."""
        weights = list(self.flow.producers)
        part = list(range(len(weights)))

        def first(i: int) -> int:
            while part[i] != i:
                i = part[i]
            return i

        owner: dict[int, int] = {}
        for i, (value, axis) in enumerate(weights):
            for unit in dict.fromkeys(self.units_along(value, axis).tolist()):
                if unit >= 0:
                    j = owner.setdefault(unit, i)
                    low, high = sorted((first(i), first(j)))
                    part[high] = low
        found: dict[int, list[ParameterAxis]] = {}
        for i, weight in enumerate(weights):
            found.setdefault(first(i), []).append(weight)
        return list(found.values())

    def _units_of(self, weights: Sequence[ParameterAxis]) -> tuple[int, ...]:
        units: dict[int, None] = {}
        for value, axis in weights:
            along = self.units_along(value, axis).tolist()
            units.update(dict.fromkeys(u for u in along if u >= 0))
        return tuple(units)

    def _reason(self, weight: ParameterAxis) -> str:
        labels = self.flow.axes_of(weight.value)[weight.axis]
        if labels is None:
            return "its output channels are not followed"
        for unit in self.resolved.of(labels):
            if int(unit) in self.resolved.reasons:
                return f"its output {self.resolved.reasons[int(unit)]}"
        return "its output channels can only be removed all together"

    def skip(self, weight: ParameterAxis, reason: str) -> None:
        """Note that a layer stays whole."""
        self.skipped.setdefault(layer_of(weight.value.name), reason)

    def leave(self, group: Group, reason: str) -> None:
        """Let a group stay whole."""
        self.groups.remove(group)
        for weight in group.weights:
            self.skip(weight, reason)

    def group_along(self, name: str, axis: int) -> tuple[Group, Labels]:
        """The group that a parameter's axis belongs to, and the unit of each index.

        Raises:
            NotFoundError: If there is no such parameter.
            InvalidArgumentError: If it has no such axis, or its channels stay whole.
        """
        values = {v.name: v for v in self.parameters}
        if name not in values:
            raise NotFoundError(
                f"[prune] expected the name of a weight, got {name!r}; there are "
                f"{', '.join(values)}"
            )
        value = values[name]
        if not 0 <= axis < len(value.shape):
            raise InvalidArgumentError(
                f"[prune] expected an axis of {name} of shape {list(value.shape)}, "
                f"got {axis}"
            )
        along = self.units_along(value, axis)
        found = set(along.tolist())
        for group in self.groups:
            if not found.isdisjoint(group.units):
                return group, along
        why = self.skipped.get(layer_of(name), "nothing that can shrink has this axis")
        raise InvalidArgumentError(
            f"[prune] expected an axis that can lose channels, got axis {axis} of "
            f"{name}: {why}"
        )

    # -- removal -----------------------------------------------------------------------
    def removal(self, removed: Iterable[int]) -> Remaining:
        """Which labels remain if these units are removed."""
        return self.resolved.removal(removed)

    def masks(
        self, remaining: Remaining
    ) -> dict[Value, list[NDArray[np.bool_] | None]]:
        """For each parameter that shrinks, which indices of each axis stay.

        Raises:
            InvalidArgumentError: If an axis would lose all of its indices.
        """
        found: dict[Value, list[NDArray[np.bool_] | None]] = {}
        for value in self.parameters:
            masks = [_mask(labels, remaining) for labels in self.flow.axes_of(value)]
            if any(mask is not None for mask in masks):
                found[value] = masks
            for axis, mask in enumerate(masks):
                if mask is not None and not mask.any():
                    raise InvalidArgumentError(
                        f"[prune] expected at least one channel to stay, got none of "
                        f"axis {axis} of {value.name}"
                    )
        return found

    def shape(self, value: Value, remaining: Remaining) -> tuple[int, ...]:
        """What the shape of an array will be."""
        return tuple(
            size if labels is None else int(remaining(labels).sum())
            for size, labels in zip(value.shape, self._axes(value), strict=True)
        )

    def _axes(self, value: Value) -> Axes:
        return self.flow.axes.get(value) or [None] * len(value.shape)

    def flops(self, remaining: Remaining | None = None) -> int:
        """Multiply-adds of a run, of one sample where a size is symbolic."""
        return sum(
            multiply_adds(
                node.op,
                [None if v is None else self._sized(v, remaining) for v in node.inputs],
                [self._sized(v, remaining) for v in node.outputs],
            )
            for node in self.program.main.nodes
        )

    def _sized(self, value: Value, remaining: Remaining | None) -> tuple[int, ...]:
        return value.shape if remaining is None else self.shape(value, remaining)

    def size(self, remaining: Remaining | None = None) -> int:
        """Elements of all parameters."""
        return sum(int(np.prod(self._sized(v, remaining))) for v in self.parameters)

    def attributes(self, remaining: Remaining) -> dict[Node, dict[str, Any]]:
        """New attributes of nodes."""
        return {node: update(remaining) for node, update in self.flow.updates.items()}

    def rewritten(self, remaining: Remaining) -> Program:
        """The program without the removed channels; its shapes are inferred again.

        Raises:
            InvalidArgumentError: If an axis would lose all of its indices.
        """
        masks = self.masks(remaining)
        changed = self.attributes(remaining)
        values: dict[Value, Value] = {}
        nodes: dict[Node, Node] = {}
        clone = self.program.copy(values, nodes)
        for value, axes in masks.items():
            new = values.get(value)
            if new is None:  # read by nothing
                continue
            new.shape = self.shape(value, remaining)
            if new.data is not None:
                new.data = sliced(np.asarray(new.data), axes)
        for old, node in nodes.items():
            node.attrs.update(changed.get(old, {}))
            specs = infer(node.op, node.inputs, node.attrs)
            for before, value, (_, shape) in zip(
                old.outputs, node.outputs, specs, strict=True
            ):
                value.shape = shape
                if shape != self.shape(before, remaining):
                    raise AssertionError(
                        f"{described(old)} gives {shape}, not "
                        f"{self.shape(before, remaining)}"
                    )
        return clone

    def describe(self) -> Mapping[str, tuple[str, ...]]:
        """Layers of each group by its name."""
        return {group.name: group.layers for group in self.groups}


def _mask(labels: Labels | None, remaining: Remaining) -> NDArray[np.bool_] | None:
    if labels is None:
        return None
    mask = remaining(labels)
    return None if mask.all() else mask


def sliced(array: Array, masks: Sequence[NDArray[np.bool_] | None]) -> Array:
    """The indices of each axis for which its mask is true."""
    for axis, mask in enumerate(masks):
        if mask is not None:
            array = np.compress(mask, array, axis=axis)
    return np.ascontiguousarray(array)
