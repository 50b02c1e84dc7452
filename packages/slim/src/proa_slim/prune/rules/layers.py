"""Norms, pooling and recurrent cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.ir.program import Node
from proa_slim.prune.flow import Axes, Flow, Reason, Rule
from proa_slim.prune.units import Labels, Remaining


def _batch_norm(flow: Flow, node: Node) -> list[Axes]:
    """Channels are axis 1; every other array has one element for each."""
    x = list(flow.input(node, 0) or [])
    others = [(flow.input(node, i) or [None])[0] for i in range(1, len(node.inputs))]
    labels = x[1] = flow.join(node, x[1], *others)
    flow.scaled(node.inputs[3 if node.op == "batch_norm_infer" else 1])
    return [x, *[[labels] for _ in node.outputs[1:]]]


def _layer_norm(flow: Flow, node: Node) -> list[Axes]:
    """The last `axes` axes are normalised: fewer of them have other moments."""
    x, count = list(flow.input(node, 0) or []), int(node.attrs.get("axes", 1))
    for index in (1, 2):
        other = flow.input(node, index)
        for i, labels in enumerate(other or []):
            at = len(x) - count + i
            x[at] = flow.join(node, x[at], labels)
    flow.scaled(node.inputs[1])
    return [x, *[x[: len(x) - count] for _ in node.outputs[1:]]]


def _group_norm(flow: Flow, node: Node) -> list[Axes]:
    """Whole groups are removed, or the same channels of each: the finer choice."""
    x, groups = list(flow.input(node, 0) or []), int(node.attrs["groups"])
    others = [(flow.input(node, i) or [None])[0] for i in (1, 2)]
    labels = x[1] = flow.join(node, x[1], *others)
    flow.scaled(node.inputs[1])
    of_groups: Labels | None = None
    if labels is not None:
        grid = labels.reshape(groups, -1)
        if groups >= grid.shape[1]:
            first = of_groups = flow.units.join_rows(grid.T)

            def update(remaining: Remaining) -> dict[str, Any]:
                return {"groups": int(remaining(first).sum())}

            flow.updates[node] = update
        else:
            flow.units.join_rows(grid)
    return [x, *[[x[0], of_groups] for _ in node.outputs[1:]]]


def _pool(flow: Flow, node: Node) -> list[Axes]:
    """Channels pass; spatial axes stay whole."""
    x = flow.input(node, 0) or []
    flow.keep(x[2:], Reason("is a spatial axis in {}", node))
    return [[*x[:2], *[None] * (len(x) - 2)] for _ in node.outputs]


def _channel_sums(flow: Flow, node: Node) -> list[Axes]:
    return [[(flow.input(node, 0) or [None, None])[1]]]


def _recurrent(flow: Flow, node: Node) -> list[Axes]:
    """Hidden units: every gate loses the same, and so does the state.

    xg (time, batch, gates * hidden), w (gates * hidden, hidden), h0 and c0 (batch,
    hidden), bias (gates * hidden,).
    """
    xg, w = flow.input(node, 0) or [], flow.input(node, 1) or []
    hidden = w[1]
    if hidden is None or any(v is None for v in (xg[-1], w[0])):
        return flow.stay_whole(node, Reason("{} reads fixed weights", node))
    flow.produces(node, node.inputs[1], 1)
    gates: list[Labels | None] = [xg[-1], w[0]]
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        gates.append(flow.axes_of(node.inputs[4])[0])
    width = len(hidden)
    for labels in gates:
        if labels is not None:
            rows = flow.units.join_rows(labels.reshape(-1, width))
            hidden = flow.join(node, hidden, rows)
        else:
            flow.keep([hidden], Reason("{} reads a fixed bias", node))
    for index in (2, 3):
        state = node.inputs[index] if index < len(node.inputs) else None
        if state is not None:
            hidden = flow.join(node, hidden, flow.axes_of(state)[-1])
    assert hidden is not None
    result: list[Axes] = []
    for value in node.outputs:
        size = value.shape[-1]
        own = np.tile(hidden, size // len(hidden)) if size > 0 else None
        result.append([*[None] * (len(value.shape) - 1), own])
    return result


_POOLS = (
    "max_pool2d",
    "max_pool2d_index",
    "avg_pool2d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_index",
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(("batch_norm", "batch_norm_infer"), _batch_norm),
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(_POOLS, _pool),
    "sum_channels": _channel_sums,
    "recurrent": _recurrent,
}
