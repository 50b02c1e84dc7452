"""Elementwise operators, reductions and what passes axes on."""

from __future__ import annotations

from proa.ir.program import Node
from proa_slim.prune.flow import Axes, Flow, Reason, Rule


def aligned(flow: Flow, node: Node, axes: list[tuple[Axes, tuple[int, ...]]]) -> Axes:
    """Labels of what arrays of these shapes broadcast to."""
    rank = max(len(shape) for _, shape in axes)
    result: Axes = []
    for back in range(rank, 0, -1):
        here = [
            (labels[-back], shape[-back])
            for labels, shape in axes
            if len(shape) >= back and shape[-back] != 1
        ]
        sizes = {size for _, size in here}
        joined = flow.join(node, *(labels for labels, _ in here)) if here else None
        if len(sizes) > 1:  # a symbolic size
            flow.keep([joined], Reason("meets a symbolic size in {}", node))
            joined = None
        result.append(joined)
    return result


def elementwise(flow: Flow, node: Node) -> list[Axes]:
    """Axes that are aligned go together."""
    given = [(flow.axes_of(v), v.shape) for v in node.inputs if v is not None]
    return [aligned(flow, node, given) for _ in node.outputs]


def _like_input(flow: Flow, node: Node) -> list[Axes]:
    axes = flow.input(node, 0) or []
    return [list(axes) for _ in node.outputs]


def _reduced(flow: Flow, node: Node) -> list[Axes]:
    """Reduced axes may shrink; of `mean_last` and its kin they are the last ones."""
    axes = flow.input(node, 0) or []
    rank, which = len(axes), node.attrs.get("axis", node.attrs.get("axes"))
    if node.op in ("mean_last", "sum_last"):
        gone = set(range(rank - int(which or 0), rank))
    else:
        gone = {int(a) % rank for a in which} if which else set(range(rank))
    if node.attrs.get("keepdim"):
        return [[None if i in gone else labels for i, labels in enumerate(axes)]]
    return [[labels for i, labels in enumerate(axes) if i not in gone]]


def _position(flow: Flow, node: Node) -> list[Axes]:
    """Results are positions along an axis, which must stay whole."""
    axes = list(flow.input(node, 0) or [])
    axis = int(node.attrs.get("axis", -1)) % len(axes)
    flow.keep([axes[axis]], Reason("{} gives positions along it", node))
    axes[axis] = None
    if len(node.outputs[0].shape) < len(axes):
        del axes[axis]
    return [axes]


def _scan(flow: Flow, node: Node) -> list[Axes]:
    """Each index along the axis follows from those before it."""
    given = [(flow.axes_of(v), v.shape) for v in node.inputs if v is not None]
    axes = aligned(flow, node, given)
    axis = int(node.attrs.get("axis", -1)) % len(axes)
    flow.keep([axes[axis]], Reason("{} depends on the order along it", node))
    return [axes]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("softmax", "log_softmax", "dropout", "resize_axis", "fake_quant"), _like_input
    ),
    **dict.fromkeys(
        ("sum", "mean", "max", "min", "prod", "all", "any", "logsumexp"), _reduced
    ),
    **dict.fromkeys(("mean_last", "sum_last"), _reduced),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("cumsum", "cumprod", "linear_recurrence"), _scan),
}
