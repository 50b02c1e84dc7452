"""Products with weights: linear, matmul, convolution, rows by number, attention."""

from __future__ import annotations

from typing import Any

from proa.ir.program import Node
from proa_slim.prune.flow import Axes, Flow, Reason, Rule
from proa_slim.prune.rules.reductions import aligned
from proa_slim.prune.units import Labels, Remaining


def _residual(flow: Flow, node: Node, index: int, result: Axes) -> None:
    """An array that is added to the result has its labels."""
    extra = node.inputs[index] if index < len(node.inputs) else None
    if extra is not None:
        pairs = [(flow.axes_of(extra), extra.shape), (result, node.outputs[0].shape)]
        aligned(flow, node, pairs)


def _linear(flow: Flow, node: Node) -> list[Axes]:
    x, w = flow.input(node, 0) or [], flow.input(node, 1) or []
    flow.join(node, x[-1], w[0])
    result: Axes = [*x[:-1], w[1]]
    flow.produces(node, node.inputs[1], 1)
    for index in range(2, len(node.inputs)):  # bias, residual
        _residual(flow, node, index, result)
    return [result]


def _matmul(flow: Flow, node: Node) -> list[Axes]:
    x, y = node.inputs[0], node.inputs[1]
    assert x is not None and y is not None
    if len(x.shape) < 2 or len(y.shape) < 2:
        return flow.stay_whole(node, Reason("{} of a vector has no rule", node))
    left, right = flow.axes_of(x), flow.axes_of(y)
    flow.join(node, left[-1], right[-2])
    batch: Axes = []
    if len(x.shape) > 2 or len(y.shape) > 2:
        pairs = [(left[:-2], x.shape[:-2]), (right[:-2], y.shape[:-2])]
        batch = aligned(flow, node, pairs)
    flow.produces(node, y, -1 % len(y.shape))
    flow.produces(node, x, len(x.shape) - 2)
    return [[*batch, left[-2], right[-1]]]


def _grouped(
    flow: Flow, node: Node, x: Labels, inner: Labels | None, out: Labels, groups: int
) -> None:
    """Channels of a convolution in groups: `inner` are the inputs of one group.

    Whole groups are removed if that is the finer choice (always so if they are
    depthwise), else the same channels of every group.
    """
    ins, outs = x.reshape(groups, -1), out.reshape(groups, -1)
    width = min(ins.shape[1], outs.shape[1])
    if groups >= width:
        first = flow.units.join_rows(ins.T)
        flow.units.join(first, flow.units.join_rows(outs.T))
        flow.keep([inner], Reason("{} loses whole groups", node))

        def update(remaining: Remaining) -> dict[str, Any]:
            return {"groups": int(remaining(first).sum())}

        flow.updates[node] = update
        return
    flow.join(node, flow.units.join_rows(ins), inner)
    flow.units.join_rows(outs)


def _convolution(flow: Flow, node: Node) -> list[Axes]:
    """Weights (out, in / groups, ...), or transposed (in, out / groups, ...)."""
    x, w = flow.input(node, 0) or [], flow.input(node, 1) or []
    weight, groups = node.inputs[1], int(node.attrs.get("groups", 1))
    flow.keep(x[2:], Reason("is a spatial axis in {}", node))
    flow.keep(w[2:], Reason("is the size of a filter in {}", node))
    is_transposed = "transpose" in node.op
    axis = 1 if is_transposed else 0
    out: Labels | None
    if groups == 1:
        flow.join(node, x[1], w[1 - axis])
        out = w[axis]
        flow.produces(node, weight, axis)
    elif is_transposed:
        out = _grouped_transposed(flow, node, x[1], w, groups)
    else:
        out = w[0]
        if x[1] is None or out is None:
            flow.keep([x[1], *w], Reason("meets an axis of fixed size in {}", node))
            out = None
        else:
            flow.produces(node, weight, 0)
            _grouped(flow, node, x[1], w[1], out, groups)
    result: Axes = [x[0], out, *[None] * (len(x) - 2)]
    bias = flow.input(node, 2)
    if bias is not None:
        flow.join(node, out, bias[0])
    _residual(flow, node, 3, result)
    return [result]


def _grouped_transposed(
    flow: Flow, node: Node, x: Labels | None, w: Axes, groups: int
) -> Labels | None:
    """A depthwise transposed convolution couples its input and output channels."""
    flow.join(node, x, w[0])
    inputs, outputs = w[0], w[1]
    if x is None or inputs is None or outputs is None or len(inputs) != groups:
        flow.keep([x, *w[:2]], Reason("{} in groups has no rule", node))
        return None
    flow.keep([outputs], Reason("{} loses whole groups", node))
    flow.produces(node, node.inputs[1], 0)
    flow.updates[node] = lambda remaining: {"groups": int(remaining(inputs).sum())}
    return inputs.repeat(len(outputs))


def _embedding(flow: Flow, node: Node) -> list[Axes]:
    ids, table = flow.input(node, 0) or [], flow.input(node, 1) or []
    flow.keep([*ids, table[0]], Reason("{} looks rows up by number", node))
    flow.produces(node, node.inputs[1], 1)
    return [[*[None] * len(ids), table[1]]]


def _blend_rows(flow: Flow, node: Node) -> list[Axes]:
    """Sums of rows (pixels, channels), which a deformable convolution reads by number:
    channels pass.
    """
    x = flow.input(node, 0) or []
    others = [labels for i in (1, 2) for labels in flow.input(node, i) or []]
    flow.keep([x[0], *others], Reason("{} reads it by number", node))
    return [[None, x[1]]]


def _attention(flow: Flow, node: Node) -> list[Axes]:
    """q, k, v (batch, length, heads, d): heads go together, each stays whole."""
    q, k, v = ((flow.input(node, i) or []) for i in range(3))
    wide = Reason("is the width of a head in {}", node)
    flow.keep([q[3], k[3]], wide)
    flow.keep([q[0], q[1], k[1], v[1]], Reason("is a length in {}", node))
    counts = [node.inputs[i].shape[2] for i in range(3)]  # type: ignore[union-attr]
    if len(set(counts)) > 1:
        flow.keep([q[2], k[2], v[2]], Reason("{} shares heads in groups", node))
        heads = None
    else:
        heads = flow.join(node, q[2], k[2], v[2])
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    if mask is not None and len(mask.shape) >= 3:
        labels = flow.axes_of(mask)[-3]
        if mask.shape[-3] != 1:
            heads = flow.join(node, heads, labels)
    result: list[Axes] = [[None, None, heads, v[3]]]
    for extra in node.outputs[1:]:  # (batch, heads, length, 2)
        second = heads if len(extra.shape) == 4 else None
        result.append([None, second, *[None] * (len(extra.shape) - 2)])
    return result


RULES: dict[str, Rule] = {
    **dict.fromkeys(("linear", "linear_act"), _linear),
    "matmul": _matmul,
    **dict.fromkeys(
        ("conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "conv2d_act"),
        _convolution,
    ),
    "embedding": _embedding,
    "blend_rows": _blend_rows,
    "attention": _attention,
}
