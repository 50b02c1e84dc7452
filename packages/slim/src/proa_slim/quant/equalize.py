"""Rescaling that keeps the float32 function and makes weights or activations easier to
round: cross-layer equalization and SmoothQuant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from proa.ir.builder import make_node
from proa.ir.program import Array, Node, Program, Value
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import PRODUCTS, quantizable

_Real = NDArray[np.float32]
_ROUNDS = 20


def equalize(program: Program) -> int:
    """Cross-layer equalization (Nagel et al., 2019); returns how many pairs it found.

    Of two products with no activation or ReLU between them, channel i of the first
    result is divided, and input channel i of the second weight multiplied, by
    s_i = sqrt(r1_i / r2_i), with r1_i, r2_i the greatest magnitudes of channel i in the
    first weight and in the second. Pairs are visited until s is 1, at most 20 times.

    Requires that the second product alone reads the first. A ReLU6 or any other
    activation between them does not commute with a scale: such pairs are left alone.
    """
    found = [pair for node in program.main.nodes if (pair := _pair(node))]
    for _ in range(_ROUNDS):
        changes = [_equalize_pair(program, *pair) for pair in found]
        if max(changes, default=0.0) < 1e-3:
            break
    return len(found)


def _pair(second: Node) -> tuple[Node, Node] | None:
    x = second.inputs[0]
    if not quantizable(second) or x is None or x.producer is None:
        return None
    first = x.producer
    if not quantizable(first) or x.only_user is not second:
        return None
    if first.op.partition("_")[0] != second.op.partition("_")[0]:
        return None
    plain = first.attrs.get("act", "none") in ("none", "relu")
    residual = len(first.inputs) > 3 and first.inputs[3] is not None
    return (first, second) if plain and not residual else None


def _data(value: Value | None) -> _Real:
    assert value is not None and value.data is not None
    return np.asarray(value.data, np.float32)


def _input_channels(node: Node) -> _Real:
    """The weight as (input channels, others)."""
    weight = _data(node.inputs[1])
    if node.op.startswith("linear"):
        return weight
    groups = int(node.attrs["groups"])
    # (groups, out / groups, in / groups, kernel) -> (in, ...)
    split = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    result: _Real = split.swapaxes(1, 2).reshape(groups * weight.shape[1], -1)
    return result


def _scale_inputs(program: Program, node: Node, scale: _Real) -> None:
    """Multiply input channel i of the weight by scale[i]."""
    weight = _data(node.inputs[1])
    if node.op.startswith("linear"):
        _set(program, node, 1, weight * scale[:, None])
        return
    groups = int(node.attrs["groups"])
    each = scale.reshape(groups, 1, -1)  # (groups, 1, in / groups)
    per_output = np.broadcast_to(
        each, (groups, weight.shape[0] // groups, weight.shape[1])
    )
    _set(program, node, 1, weight * per_output.reshape(*weight.shape[:2], 1, 1))


def _set(program: Program, node: Node, index: int, array: Array) -> None:
    old = node.inputs[index]
    assert old is not None
    node.inputs[index] = program.constant(array.astype(np.float32), name=old.name)


def _equalize_pair(program: Program, first: Node, second: Node) -> float:
    """Returns the greatest |log s|."""
    axis = PRODUCTS[first.op][1]
    weight = _data(first.inputs[1])
    out = np.abs(np.moveaxis(weight, axis, 0)).reshape(weight.shape[axis], -1)
    r1 = out.max(axis=1)
    r2 = np.abs(_input_channels(second)).max(axis=1)
    both = (r1 > 0) & (r2 > 0)
    scale = np.ones_like(r1)
    scale[both] = np.sqrt(r1[both] / r2[both])
    along = [1] * weight.ndim
    along[axis] = -1
    _set(program, first, 1, weight / scale.reshape(along))
    if len(first.inputs) > 2 and first.inputs[2] is not None:
        _set(program, first, 2, _data(first.inputs[2]) / scale)
    _scale_inputs(program, second, scale)
    return float(np.abs(np.log(scale)).max())


def smooth(
    program: Program,
    nodes: Sequence[Node],
    batches: Iterable[Sequence[Array]],
    alpha: float,
) -> None:
    """SmoothQuant (Xiao et al., 2023) for those of `nodes` that are linear.

    Input channel j is divided, and row j of each weight that reads it multiplied, by
    s_j = max |x_j|^alpha / max |w_j|^(1 - alpha). The division goes into a layer norm
    before it, if these layers alone read that; it is a product in float32 if not.
    """
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        if node.op.startswith("linear") and node.inputs[0] is not None:
            readers.setdefault(node.inputs[0], []).append(node)
    peaks: dict[Value, _Real] = {}

    def watch(value: Value, array: Array) -> None:
        if value in readers:
            peak = np.abs(array.reshape(-1, array.shape[-1])).max(axis=0)
            peaks[value] = np.maximum(peaks.get(value, peak), peak)

    for batch in batches:
        interpret(program, batch, watch)
    for x, users in readers.items():
        rows = np.max([np.abs(_data(n.inputs[1])).max(axis=1) for n in users], axis=0)
        both = (peaks[x] > 0) & (rows > 0)
        scale = np.ones_like(rows)
        scale[both] = peaks[x][both] ** alpha / rows[both] ** (1 - alpha)
        _divide(program, x, users, scale)
        for node in users:
            _scale_inputs(program, node, scale)


def _divide(program: Program, x: Value, users: list[Node], scale: _Real) -> None:
    norm = x.producer
    if norm is not None and norm.op == "layer_norm" and set(x.users) == set(users):
        constants = norm.inputs[1:3]
        if not x.is_output and all(v is not None and v.is_constant for v in constants):
            for index in (1, 2):
                _set(program, norm, index, _data(norm.inputs[index]) / scale)
            return
    factor = program.constant((1 / scale).astype(np.float32), name=f"{x.name}.smooth")
    product = make_node(program, "mul", [x, factor], {})
    program.main.nodes.insert(program.main.nodes.index(users[0]), product)
    for node in users:
        node.inputs[0] = product.outputs[0]
