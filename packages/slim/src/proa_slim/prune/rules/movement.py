"""Operators that move elements: reshape, transpose, concat, slice, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from proa.ir.program import Node, Value
from proa_slim.prune.flow import Axes, Flow, Reason, Rule
from proa_slim.prune.rules.reductions import aligned
from proa_slim.prune.units import Labels, Remaining

Shape = tuple[int, ...]


class Segment(NamedTuple):
    """Axes of an array that become axes of the other, with as many elements."""

    inputs: range
    outputs: range


def segments(old: Shape, new: Shape) -> list[Segment]:
    """Which axes a reshape merges or splits, from the front and then from the back.

    What remains between them, where sizes are symbolic, is one segment.
    """
    front, i, j = _matched(old, new)
    back, k, m = _matched(old[i:][::-1], new[j:][::-1])
    ends = len(old), len(new)
    rear = [
        Segment(
            range(ends[0] - s.inputs.stop, ends[0] - s.inputs.start),
            range(ends[1] - s.outputs.stop, ends[1] - s.outputs.start),
        )
        for s in reversed(back)
    ]
    middle = Segment(range(i, ends[0] - k), range(j, ends[1] - m))
    return [*front, *([middle] if middle.inputs or middle.outputs else []), *rear]


def _matched(old: Shape, new: Shape) -> tuple[list[Segment], int, int]:
    """Segments from the front and how many axes of each they cover."""
    found: list[Segment] = []
    i = j = 0
    while i < len(old) and j < len(new):
        a, b, m, n = old[i], new[j], i + 1, j + 1
        while a != b:
            if a < 0 or b < 0 or 0 in (a, b):
                return found, i, j
            if a < b and m < len(old) and old[m] >= 0:
                a, m = a * old[m], m + 1
            elif b < a and n < len(new) and new[n] >= 0:
                b, n = b * new[n], n + 1
            else:
                return found, i, j
        found.append(Segment(range(i, m), range(j, n)))
        i, j = m, n
    if found and all(n == 1 for n in (*old[i:], *new[j:])):
        last = found.pop()
        rest = range(last.inputs.start, len(old)), range(last.outputs.start, len(new))
        found.append(Segment(*rest))
        i, j = len(old), len(new)
    return found, i, j


def _reshape(flow: Flow, node: Node) -> list[Axes]:
    """Merged axes lose blocks; of a split axis the first part loses indices, or, where
    a transpose shuffles channels, the second; another one if that part must stay whole.
    """
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axes = flow.axes_of(x)
    result: Axes = [None] * len(y.shape)
    same: list[int | None] = [None] * len(y.shape)
    for segment in segments(x.shape, y.shape):
        ins = [i for i in segment.inputs if x.shape[i] != 1]
        outs = [j for j in segment.outputs if y.shape[j] != 1]
        if len(ins) == 1 and len(outs) == 1 and x.shape[ins[0]] == y.shape[outs[0]]:
            result[outs[0]], same[outs[0]] = axes[ins[0]], ins[0]
        elif len(outs) == 1:
            result[outs[0]] = _merge(flow, node, [axes[i] for i in ins], ins, x)
        elif len(ins) == 1:
            _split(flow, node, axes[ins[0]], [y.shape[j] for j in outs], outs, result)
        else:
            flow.keep((axes[i] for i in ins), Reason("is rearranged by {}", node))
    flow.moved(x, y, same)
    if "shape" in node.attrs:
        _update_shape(flow, node, result)
    return [result]


def _merge(
    flow: Flow, node: Node, labels: Axes, which: Sequence[int], x: Value
) -> Labels | None:
    sizes = [x.shape[i] for i in which]
    known = [i for i, each in enumerate(labels) if each is not None]
    if not known or min(sizes) < 0:
        flow.keep(labels, Reason("is merged with a symbolic size by {}", node))
        return None
    flow.keep((labels[i] for i in known[1:]), Reason("is merged by {}", node))
    along = [1] * len(sizes)
    along[known[0]] = -1
    chosen = labels[known[0]]
    assert chosen is not None
    return np.broadcast_to(chosen.reshape(along), sizes).reshape(-1)


def _split(
    flow: Flow,
    node: Node,
    labels: Labels | None,
    sizes: Sequence[int],
    outs: Sequence[int],
    result: Axes,
) -> None:
    if labels is None:
        return
    if not sizes or min(sizes) < 0 or math.prod(sizes) != len(labels):
        flow.keep([labels], Reason("is split into symbolic sizes by {}", node))
        return
    first = 1 if len(sizes) == 2 and _shuffles(node, *outs) else 0
    chosen = (first + flow.choices.get(node, 0)) % len(sizes)
    flow.splits.append((node, labels, len(sizes)))
    grid = np.moveaxis(labels.reshape(sizes), chosen, -1).reshape(-1, sizes[chosen])
    result[outs[chosen]] = flow.units.join_rows(grid)


def _shuffles(node: Node, outer: int, inner: int) -> bool:
    """Whether a transpose follows alone that puts the inner part before the outer."""
    transpose = node.outputs[0].only_user
    if transpose is None or transpose.op != "transpose":
        return False
    perm = [int(p) % len(node.outputs[0].shape) for p in transpose.attrs["perm"]]
    return perm.index(inner) + 1 == perm.index(outer)


def _update_shape(flow: Flow, node: Node, axes: Axes) -> None:
    """Let sizes in an attribute follow removal; 0 and -1 do so by themselves."""
    before = list(node.attrs["shape"])

    def update(remaining: Remaining) -> dict[str, Any]:
        shape = (
            int(remaining(labels).sum()) if labels is not None and size > 0 else size
            for size, labels in zip(before, axes, strict=True)
        )
        return {"shape": tuple(shape)}

    if any(labels is not None for labels in axes):
        flow.updates[node] = update


def _transpose(flow: Flow, node: Node) -> list[Axes]:
    x = node.inputs[0]
    assert x is not None
    axes, rank = flow.axes_of(x), len(x.shape)
    if node.op == "swap_last":
        perm = [*range(rank - 2), rank - 1, rank - 2]
    else:
        perm = [int(p) % rank for p in node.attrs["perm"]]
    flow.moved(x, node.outputs[0], perm)
    return [[axes[p] for p in perm]]


def _fresh(flow: Flow, size: int) -> Labels | None:
    return flow.units.new(size) if size > 1 else None


def _broadcast_to(flow: Flow, node: Node) -> list[Axes]:
    """Axes that are new, or grow from 1, are as wide as what reads them."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    axes = flow.axes_of(x)
    lead = len(y.shape) - len(axes)
    result: Axes = []
    for i, size in enumerate(y.shape):
        grows = i < lead or x.shape[i - lead] != size
        result.append(_fresh(flow, size) if grows else axes[i - lead])
    _update_shape(flow, node, result)
    return [result]


def _broadcast_like(flow: Flow, node: Node) -> list[Axes]:
    given = [(flow.axes_of(v), v.shape) for v in node.inputs if v is not None]
    return [aligned(flow, node, given)]


def _full(flow: Flow, node: Node) -> list[Axes]:
    result: Axes = [_fresh(flow, size) for size in node.outputs[0].shape]
    _update_shape(flow, node, result)
    return [result]


def _full_like(flow: Flow, node: Node) -> list[Axes]:
    return [list(flow.input(node, 0) or [])]


def _concat(flow: Flow, node: Node) -> list[Axes]:
    values = [v for v in node.inputs if v is not None]
    rank = len(values[0].shape)
    axis = int(node.attrs.get("axis", 0)) % rank
    each = [flow.axes_of(v) for v in values]
    result = [
        None if i == axis else flow.join(node, *(axes[i] for axes in each))
        for i in range(rank)
    ]
    parts = [axes[axis] for axes in each]
    if any(part is not None for part in parts):
        if min(v.shape[axis] for v in values) < 0:
            flow.keep(parts, Reason("meets a symbolic size in {}", node))
        else:
            whole = [
                _whole(flow, v.shape[axis], node) if part is None else part
                for v, part in zip(values, parts, strict=True)
            ]
            result[axis] = np.concatenate(whole)
    return [result]


def _whole(flow: Flow, size: int, node: Node) -> Labels:
    """Labels of indices that stay."""
    labels = flow.units.new(size)
    flow.keep([labels], Reason("meets an axis of fixed size in {}", node))
    return labels


def _stack(flow: Flow, node: Node) -> list[Axes]:
    values = [v for v in node.inputs if v is not None]
    rank = len(values[0].shape)
    each = [flow.axes_of(v) for v in values]
    result = [flow.join(node, *(axes[i] for axes in each)) for i in range(rank)]
    result.insert(int(node.attrs.get("axis", 0)) % (rank + 1), None)
    return [result]


def _slice(flow: Flow, node: Node) -> list[Axes]:
    """Parts of an axis; bounds follow removal."""
    x = node.inputs[0]
    assert x is not None
    axes = list(flow.axes_of(x))
    rank, bounds = len(axes), ("axes", "starts", "ends", "steps")
    given = list(zip(*(node.attrs[name] for name in bounds), strict=True))
    cut: list[tuple[int, Labels]] = []  # position in the attributes, labels
    for position, (axis, start, stop, step) in enumerate(given):
        labels, size = axes[axis % rank], x.shape[axis % rank]
        if labels is None:
            continue
        first, last, _ = slice(start, stop, step).indices(size)
        if (first, last) == (0, 1) and node not in flow.computing:
            axes[axis % rank] = None  # its shape alone is read: any index will do
            continue
        axes[axis % rank] = labels[slice(start, stop, step)]
        if step == 1:
            cut.append((position, labels))
            if (first, last) != (0, size):
                flow.sliced(x, axis % rank, first, last)
        elif (first, last, step) != (0, size, 1):
            flow.keep([labels], Reason("{} takes one of several indices", node))

    def update(remaining: Remaining) -> dict[str, Any]:
        starts, ends = list(node.attrs["starts"]), list(node.attrs["ends"])
        for position, labels in cut:
            mask = remaining(labels)
            starts[position] = _moved(starts[position], mask)
            ends[position] = _moved(ends[position], mask)
        return {"starts": tuple(starts), "ends": tuple(ends)}

    if cut:
        flow.updates[node] = update
    return [axes]


def _moved(bound: int, mask: np.ndarray[Any, Any]) -> int:
    """A bound of a slice, counted among the indices that stay."""
    if bound >= 0:
        return int(mask[:bound].sum()) if bound <= len(mask) else bound
    return -int(mask[bound:].sum()) if -bound <= len(mask) else bound


def _select(flow: Flow, node: Node) -> list[Axes]:
    """The index that is taken stays, if anything follows from its elements."""
    axes = list(flow.input(node, 0) or [])
    axis, index = int(node.attrs["axis"]) % len(axes), int(node.attrs["index"])
    labels = axes.pop(axis)
    if labels is not None and node in flow.computing:
        whole = labels
        flow.keep([labels[[index]]], Reason("{} takes it by number", node))
        flow.updates[node] = lambda remaining: {
            "index": _moved(index, remaining(whole))
        }
    return [axes]


def _gather(flow: Flow, node: Node) -> list[Axes]:
    axes, index = list(flow.input(node, 0) or []), flow.input(node, 1) or []
    axis = int(node.attrs.get("axis", 0)) % len(axes)
    flow.keep([axes[axis], *index], Reason("{} reads it by number", node))
    return [[*axes[:axis], *[None] * len(index), *axes[axis + 1 :]]]


def _tile(flow: Flow, node: Node) -> list[Axes]:
    axes = list(flow.input(node, 0) or [])
    repeats = [int(n) for n in node.attrs["repeats"]]
    while len(axes) < len(repeats):
        axes.insert(0, None)
    repeats = [1] * (len(axes) - len(repeats)) + repeats
    return [
        [
            None if labels is None else np.tile(labels, n)
            for labels, n in zip(axes, repeats, strict=True)
        ]
    ]


def _pad(flow: Flow, node: Node) -> list[Axes]:
    """Constant padding stays; other modes copy indices, which must then stay."""
    axes = list(flow.input(node, 0) or [])
    for i, (low, high) in enumerate(
        zip(node.attrs["low"], node.attrs["high"], strict=True)
    ):
        labels = axes[i]
        if labels is None or (low == 0 and high == 0):
            continue
        if node.attrs.get("mode", "constant") != "constant" or min(low, high) < 0:
            flow.keep([labels], Reason("is padded by {}", node))
            axes[i] = None
        else:
            axes[i] = np.concatenate(
                [_whole(flow, low, node), labels, _whole(flow, high, node)]
            )
    return [axes]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("reshape", "reshape_like", "flatten", "squeeze", "unsqueeze"), _reshape
    ),
    **dict.fromkeys(("transpose", "swap_last"), _transpose),
    "broadcast_to": _broadcast_to,
    "broadcast_like": _broadcast_like,
    "full": _full,
    "full_like": _full_like,
    "concat": _concat,
    "stack": _stack,
    "slice": _slice,
    "select": _select,
    "gather": _gather,
    "tile": _tile,
    "pad": _pad,
}
