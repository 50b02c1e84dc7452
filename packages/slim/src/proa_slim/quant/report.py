"""What quantization does to each product, measured on a fake-quantized program."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from proa.ir import file
from proa.ir.program import Array, Node, Program, Value
from proa_slim.quant.interpret import interpret
from proa_slim.quant.layer_paths import layer_path
from proa_slim.quant.lower import PRODUCTS, rounded_input
from proa_slim.quant.model import LayerReport
from proa_slim.quant.pairs import PAIRS, operands_of, pair_keys, pair_to_integers

_Real = NDArray[np.float64]


def layer_report(
    program: Program, faked: Program, sample: Sequence[Array]
) -> list[LayerReport]:
    """One record for each product of `faked` whose operands are fake-quantized.

    Products of activations are measured as integers: attention rounds the weights of
    softmax, too, which no fake quantization does.

    Args:
        program: In float32.
        faked: A copy of it with fake quantization.
        sample: One batch of inputs.
    """
    keys = {n.outputs[0].name: key for n, key in pair_keys(program).items()}
    faked = file.from_bytes(file.to_bytes(faked))  # a copy
    scales = _scales(faked)
    originals = {
        n.outputs[0].name: n for n in program.main.nodes if n.outputs[0].name in scales
    }
    before = {
        value.name
        for n in originals.values()
        for value in (operands_of(n) if n.op in PAIRS else n.inputs[:1])
        if value is not None
    }
    exact: dict[str, Array] = {}

    def watch(value: Value, array: Array) -> None:
        if value.name in scales or value.name in before:
            exact[value.name] = np.array(array)

    interpret(program, sample, watch)
    together = _results(faked, sample, scales, {})
    # Every layer reads its input in float32: what is left is its own error.
    forced = {name: array for name, array in exact.items() if name in before}
    alone = _results(faked, sample, scales, forced)
    return [
        _record(
            originals[name],
            keys.get(name) or layer_path(originals[name]),
            scale,
            (exact[name], together[name], alone[name]),
        )
        for name, scale in scales.items()
    ]


def _scales(faked: Program) -> dict[str, float]:
    """Scales of the first operands of the products whose operands are fake-quantized,
    by the names of their results; those of activations become integers.
    """
    found: dict[str, float] = {}
    nodes: list[Node] = []
    for node in faked.main.nodes:
        whole = pair_to_integers(faked, node)
        rounded = rounded_input(node) if node.op in PRODUCTS else None
        scale = whole[0].inputs[1] if whole else rounded and rounded.scale
        if scale is not None and scale.data is not None:
            found[node.outputs[0].name] = float(scale.data.reshape(()))
        nodes += [*whole, node]
    faked.main.nodes = nodes
    return found


def _results(
    faked: Program,
    sample: Sequence[Array],
    wanted: Collection[str],
    forced: dict[str, Array],
) -> dict[str, Array]:
    found: dict[str, Array] = {}

    def watch(value: Value, array: Array) -> None:
        if value.name in wanted:
            found[value.name] = np.array(array)

    interpret(faked, sample, watch, forced)
    return found


def _record(
    node: Node, layer: str, scale: float, results: tuple[Array, Array, Array]
) -> LayerReport:
    """The record of a product.

    Args:
        node: The product in float32.
        layer: What the report calls it.
        scale: That of its input.
        results: In float32, with all products before it quantized, and with it alone.
    """
    exact, together, alone = (array.astype(np.float64) for array in results)
    signal, error = exact, exact - together
    by_channel = [_channels(node, array) for array in (signal, error)]
    channels = [sqnr_db(*pair) for pair in zip(*by_channel, strict=True)]
    worst = int(np.argmin(channels))
    return LayerReport(
        name=node.outputs[0].name,
        layer=layer,
        op=node.op,
        input_scale=scale,
        sqnr_db=sqnr_db(signal, error),
        layer_sqnr_db=sqnr_db(signal, signal - alone),
        worst_channel=worst,
        worst_channel_sqnr_db=channels[worst],
        max_abs_error=float(np.abs(error).max(initial=0.0)),
    )


def _channels(node: Node, array: _Real) -> _Real:
    """(channels, elements) of a product's result."""
    if node.op == "attention":  # (b, n, heads, e) -> (b, n, heads * e)
        array = array.reshape(*array.shape[:2], -1)
    axis = 1 if node.op.startswith("conv2d") else -1
    return np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)


def sqnr_db(signal: _Real, error: _Real) -> float:
    """10 log10(sum signal^2 / sum error^2); infinite without error, -infinite for an
    error of no signal.
    """
    noise, power = float((error**2).sum()), float((signal**2).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(power / noise) if power > 0 else -math.inf
