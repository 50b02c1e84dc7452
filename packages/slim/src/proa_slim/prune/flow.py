"""How the labels of axes flow through a program: what rules of operators work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from proa.ir.attributes import row_of
from proa.ir.program import Node, Program, Value
from proa_slim.prune.units import Labels, Remaining, Units

#: Labels of each axis of an array; None of an axis that never shrinks.
Axes = list["Labels | None"]
Rule = Callable[["Flow", Node], list[Axes]]


class ParameterAxis(NamedTuple):
    """An axis of a parameter."""

    value: Value
    axis: int


class Flow:
    """Labels of all arrays of a program.

    Args:
        program: Without control flow.
        parameters: Inputs and constants that may shrink.
        rule_of: Gives the rule of a node, if there is one.
        choices: For nodes that split an axis, which part loses indices.

    Attributes:
        axes: Labels of each array.
        producers: Axes of weights whose indices are output channels.
        scales: Axes of the scales of norms.
        updates: What removal changes in the attributes of nodes.
        unknown: Nodes without a rule.
        splits: Nodes that split an axis, its labels, and the number of parts.
        computing: Nodes whose elements, not only their shapes, reach an output.
    """

    def __init__(
        self,
        program: Program,
        parameters: Iterable[Value],
        rule_of: Callable[[Node], Rule | None],
        choices: Mapping[Node, int] | None = None,
    ) -> None:
        self.units, self._rule_of = Units(), rule_of
        self.axes: dict[Value, Axes] = {}
        self.producers: dict[ParameterAxis, Node] = {}
        self.scales: list[ParameterAxis] = []
        self.updates: dict[Node, Callable[[Remaining], dict[str, Any]]] = {}
        self.unknown: list[Node] = []
        self.choices = dict(choices or {})
        self.splits: list[tuple[Node, Labels, int]] = []
        self._slices: dict[tuple[Value, int], set[tuple[int, int]]] = {}
        self._origin: dict[Value, tuple[Value, tuple[int | None, ...]]] = {}
        self._parameters = set(parameters)
        self.computing = _computing(program)
        for value in program.main.inputs:
            self.axes_of(value)
        for node in program.main.nodes:
            self._visit(node)
        for value in program.main.outputs:
            self.keep(self.axes_of(value), Reason("is an output of the network"))
        self._join_sections()

    # -- what rules call ---------------------------------------------------------------
    def axes_of(self, value: Value) -> Axes:
        """The labels of an array; a parameter gets its own when it is first read."""
        if value not in self.axes:
            if value in self._parameters:
                self.axes[value] = [self.units.new(n) for n in value.shape]
                self._origin[value] = value, tuple(range(len(value.shape)))
            else:
                self.axes[value] = [None] * len(value.shape)
        return self.axes[value]

    def input(self, node: Node, index: int) -> Axes | None:
        """The labels of an input of a node; None if it is not given."""
        value = node.inputs[index] if index < len(node.inputs) else None
        return None if value is None else self.axes_of(value)

    def keep(self, axes: Iterable[Labels | None], reason: Reason) -> None:
        """Axes that must stay whole."""
        for labels in axes:
            if labels is not None:
                self.units.keep(labels, reason)

    def join(self, node: Node, *axes: Labels | None) -> Labels | None:
        """Axes of one size whose indices go together; the labels for results."""
        known = [labels for labels in axes if labels is not None]
        if not known:
            return None
        if len(known) < len(axes):
            self.keep(known, Reason("meets an axis of fixed size in {}", node))
        for labels in known[1:]:
            self.units.join(known[0], labels)
        return known[0]

    def moved(self, value: Value, result: Value, axes: Sequence[int | None]) -> None:
        """Note which axis of `value` each axis of `result` is, None of a new one."""
        if value in self._origin:
            source, known = self._origin[value]
            places = tuple(None if a is None else known[a] for a in axes)
            self._origin[result] = source, places

    def produces(self, node: Node, value: Value | None, axis: int) -> None:
        """The axis of this weight counts output channels."""
        if value is not None and value in self._origin:
            source, places = self._origin[value]
            place = places[axis]
            if place is not None:
                self.producers.setdefault(ParameterAxis(source, place), node)

    def source_of(self, value: Value | None) -> Value | None:
        """The parameter that an array is, perhaps transposed or reshaped."""
        found = None if value is None else self._origin.get(value)
        return None if found is None else found[0]

    def scaled(self, value: Value | None) -> None:
        """The one-dimensional array multiplies normalised channels."""
        if value is not None and value in self._origin and len(value.shape) == 1:
            self.scales.append(ParameterAxis(self._origin[value][0], 0))

    def sliced(self, value: Value, axis: int, start: int, stop: int) -> None:
        """Note that a node reads a part of an axis."""
        self._slices.setdefault((value, axis), set()).add((start, stop))

    # -- the walk ----------------------------------------------------------------------
    def _visit(self, node: Node) -> None:
        rule = self._rule_of(node)
        if rule is None:
            self.unknown.append(node)
            outputs = self.stay_whole(node, Reason("{} has no rule", node))
        else:
            outputs = rule(self, node)
        for value, axes in zip(node.outputs, outputs, strict=True):
            self.axes[value] = [
                labels if size >= 0 and labels is not None else None
                for size, labels in zip(value.shape, axes, strict=True)
            ]

    def stay_whole(self, node: Node, reason: Reason) -> list[Axes]:
        """Nothing that the node reads may shrink."""
        for value in node.inputs:
            if value is not None:
                self.keep(self.axes_of(value), reason)
        return [[None] * len(v.shape) for v in node.outputs]

    def _join_sections(self) -> None:
        """Parts of equal size that make up an axis must remain of equal size."""
        for (value, axis), parts in self._slices.items():
            labels, size = self.axes_of(value)[axis], value.shape[axis]
            step = min(stop - start for start, stop in parts)
            if labels is None or step <= 0 or size % step or step == size:
                continue
            if parts == {(i, i + step) for i in range(0, size, step)}:
                self.units.join_rows(labels.reshape(-1, step))


class Reason(NamedTuple):
    """Why an axis must stay whole; {} in the text stands for the node."""

    text: str
    node: Node | None = None

    def __str__(self) -> str:
        return self.text.format(described(self.node) if self.node else "")


def described(node: Node) -> str:
    """An operator and where the user's code called it."""
    line = node.line
    return f"{node.op} ({line})" if line else node.op


def is_elementwise(node: Node) -> bool:
    """Whether every element of the result follows from one of each array."""
    return row_of(node.op).elementwise


def _computing(program: Program) -> set[Node]:
    found: set[Node] = set()
    ahead = [v.producer for v in program.main.outputs]
    while ahead:
        node = ahead.pop()
        if node is None or node in found:
            continue
        found.add(node)
        arrays = row_of(node.op).arrays
        for i, value in enumerate(node.inputs):
            if value is not None and not arrays[min(i, len(arrays) - 1)].shape_only:
                ahead.append(value.producer)
    return found
