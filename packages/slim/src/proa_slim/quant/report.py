"""What quantization does to each product, measured on a fake-quantized program."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proa.ir.program import Array, Node, Program, Value
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import PRODUCTS, layer_path, rounded_input
from proa_slim.quant.model import LayerReport

_Real = NDArray[np.float64]


def layer_report(
    program: Program, faked: Program, sample: Sequence[Array]
) -> list[LayerReport]:
    """One record for each product of `faked` whose input is fake-quantized.

    Args:
        program: In float32.
        faked: A copy of it with fake quantization.
        sample: One batch of inputs.
    """
    rounded = {
        n.outputs[0].name: n
        for n in faked.main.nodes
        if n.op in PRODUCTS and rounded_input(n)
    }
    before = {
        n.inputs[0].name
        for n in program.main.nodes
        if n.outputs[0].name in rounded and n.inputs[0] is not None
    }
    exact: dict[str, Array] = {}

    def watch(value: Value, array: Array) -> None:
        if value.name in rounded or value.name in before:
            exact[value.name] = np.array(array)

    interpret(program, sample, watch)
    together = _results(faked, sample, rounded, {})
    # Every layer reads its input in float32: what is left is its own error.
    forced = {name: array for name, array in exact.items() if name in before}
    alone = _results(faked, sample, rounded, forced)
    return [
        _record(program, node, exact[name], together[name], alone[name])
        for name, node in rounded.items()
    ]


def _results(
    faked: Program,
    sample: Sequence[Array],
    rounded: dict[str, Node],
    forced: dict[str, Array],
) -> dict[str, Array]:
    found: dict[str, Array] = {}

    def watch(value: Value, array: Array) -> None:
        if value.name in rounded:
            found[value.name] = np.array(array)

    interpret(faked, sample, watch, forced)
    return found


def _record(
    program: Program, node: Node, exact: Array, together: Array, alone: Array
) -> LayerReport:
    name = node.outputs[0].name
    (original,) = [n for n in program.main.nodes if n.outputs[0].name == name]
    found = rounded_input(node)
    assert found is not None and found.scale.data is not None
    signal, error = exact.astype(np.float64), exact.astype(np.float64) - together
    axis = 1 if node.op.startswith("conv2d") else -1
    channels = [
        sqnr_db(np.take(signal, i, axis), np.take(error, i, axis))
        for i in range(signal.shape[axis])
    ]
    worst = int(np.argmin(channels))
    return LayerReport(
        name=name,
        layer=layer_path(original),
        op=node.op,
        input_scale=float(found.scale.data.reshape(())),
        sqnr_db=sqnr_db(signal, error),
        layer_sqnr_db=sqnr_db(signal, signal - alone),
        worst_channel=worst,
        worst_channel_sqnr_db=channels[worst],
        max_abs_error=float(np.abs(error).max(initial=0.0)),
    )


def sqnr_db(signal: _Real, error: _Real) -> float:
    """10 log10(sum signal^2 / sum error^2); infinite without error, -infinite for an
    error of no signal.
    """
    noise, power = float((error**2).sum()), float((signal**2).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power > 0 else -math.inf
