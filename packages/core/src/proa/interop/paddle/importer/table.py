"""The mapping table: one row for each operator of PaddlePaddle's programs.

A row names the operator's slots in the order in which its function takes and returns
them: ``X`` one variable or none, ``X*`` a list. What it does not name it neither reads
nor makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proa.interop.graph.node import Node
from proa.interop.graph.table import Row, Rule, Table
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.sizes import SIZE_RULES


@dataclass(frozen=True)
class Slot:
    """A named input or output, which may be a list."""

    name: str
    is_list: bool


@dataclass(frozen=True)
class SlotRow(Row):
    """A row whose inputs and outputs are slots."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]


#: For each input and each output how many values it has, None for a single one.
Counts = tuple[tuple[int | None, ...], tuple[int | None, ...]]


def _slots(text: str) -> tuple[Slot, ...]:
    return tuple(Slot(t.rstrip("*"), t.endswith("*")) for t in text.split())


def _with_lists(rule: Rule) -> Rule:
    """The rule with values of lists in turn, as nodes have them."""

    def flat(call: Call, *values: Any) -> tuple[Any, ...]:
        inputs, outputs = call.node.slots
        given, at = [], 0
        for count in inputs:
            one = values[at] if count is None else list(values[at : at + count])
            given.append(one)
            at += 1 if count is None else count
        found = rule(call, *given)
        if found is NotImplemented:
            return NotImplemented  # type: ignore[no-any-return]
        result: list[Any] = []
        for count, value in zip(
            outputs, found if isinstance(found, tuple) else (found,), strict=False
        ):
            result.extend([value] if count is None else value[len(value) - count :])
        return tuple(result)

    return flat


PADDLE = Table(
    "paddle", Call, {name: _with_lists(rule) for name, rule in SIZE_RULES.items()}
)


def paddle_op(
    *names: str,
    inputs: str = "X",
    outputs: str = "Out",
    host: str = "",
    state: str = "",
    weights: str = "",
    folds: bool = True,
) -> Callable[[Rule], Rule]:
    """Let the decorated function compute these operators.

    Args:
        inputs, outputs: Slots, see above.
        host, state, weights: Names of inputs, see `Row`.
        folds: Whether the result of constants is a constant.
    """

    def added(rule: Rule) -> Rule:
        row = SlotRow(
            _with_lists(rule), 1, folds, tuple(host.split()), tuple(state.split()),
            tuple(weights.split()), _slots(inputs), _slots(outputs),
        )  # fmt: skip
        for name in names:
            PADDLE.add(name, row)
        return rule

    return added


def place(node: Node, row: SlotRow, inputs: Any, outputs: Any) -> None:
    """Give a node its row, with the names of its inputs and outputs in turn.

    Args:
        inputs, outputs: The names of each slot.
    """
    counts: list[tuple[int | None, ...]] = []
    where: list[str] = []
    for slots, names, flat in (
        (row.inputs, inputs, node.inputs), (row.outputs, outputs, node.outputs),
    ):  # fmt: skip
        found: list[int | None] = []
        for slot in slots:
            given: Sequence[str] = names.get(slot.name, ())
            if not slot.is_list and len(given) > 1:
                raise ValueError(f"{len(given)} variables in {node.op}'s {slot.name}")
            if flat is node.inputs:
                where += [slot.name] * (len(given) if slot.is_list else 1)
            flat += given if slot.is_list or given else [""]
            found.append(len(given) if slot.is_list else None)
        counts.append(tuple(found))
    node.slots = (counts[0], counts[1])
    node.row = row
    node.host, node.state, node.weights = (
        tuple(i for i, name in enumerate(where) if name in chosen)
        for chosen in (row.host, row.state, row.weights)
    )
