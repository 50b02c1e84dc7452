"""Steps of post-training quantization: choose, calibrate, round, convert."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import proa
from proa.errors import PreconditionNotMetError
from proa.ir import file
from proa.ir.builder import make_node
from proa.ir.flow import has_flow
from proa.ir.program import Array, Node, Program, Value
from proa_slim.config import QuantConfig
from proa_slim.quant.equalize import equalize, smooth
from proa_slim.quant.images import images_between, round_images
from proa_slim.quant.input_check import require_finite
from proa_slim.quant.interpret import interpret
from proa_slim.quant.layer_paths import (
    forget_layers,
    is_in,
    layer_path,
    note_layers,
    watching_layers,
)
from proa_slim.quant.lower import (
    PRODUCTS,
    lower,
    narrow_layers,
    quantizable,
)
from proa_slim.quant.model import OUT_THRESHOLD, LayerReport, QuantizedModel
from proa_slim.quant.operands import operands, round_operands
from proa_slim.quant.pairs import (
    PAIRS,
    operands_of,
    pair_keys,
    pairs,
    round_pairs,
)
from proa_slim.quant.recording import program_of
from proa_slim.quant.report import layer_report
from proa_slim.quant.rounding import RoundedWeight, adaround, correct_bias
from proa_slim.quant.scales import ActivationScale, Scale, weight_scale
from proa_slim.quant.transposed import transposed_as_convolutions
from proa_slim.quant.weight_only import WEIGHT_ALONE, store_in_8_bits

#: Operators of layers with weights, as unquantized() lists them.
_WEIGHTED = (
    "conv2d",
    "conv3d",
    "conv2d_transpose",
    "conv3d_transpose",
    "linear",
    "matmul",
    "embedding",
    "recurrent",
)


def quantizable_program(
    network: proa.nn.Layer, input_spec: Sequence[Any], config: QuantConfig
) -> Program:
    """`program_of` with transposed convolutions as convolutions where `config` has
    them quantized; its `skip` has paths. The layers of products of activations are
    noted (`pair_keys`).
    """
    with watching_layers(network) as found:
        program = program_of(network, input_spec)
    note_layers(program, found, PAIRS)
    if "conv2d" in config.ops:
        paths = [path for path in config.skip if isinstance(path, str)]
        transposed_as_convolutions(program, paths)
    return program


class Prepared(NamedTuple):
    """What calibration measured, before any layer is chosen to be quantized."""

    scales: dict[Value, Scale]
    weights: dict[str, RoundedWeight]


def prepare(
    program: Program, batches: Sequence[Sequence[Array]], config: QuantConfig
) -> Prepared:
    """Rescale the float32 program as `config` says, calibrate, and round weights that
    need data for it.
    """
    if config.equalize:
        equalize(program)
    if config.smooth_alpha is not None:
        smooth(program, products(program, config), batches, config.smooth_alpha)
    scales = calibrate(program, batches, config)
    if config.round_type != "adaround":
        return Prepared(scales, {})
    nodes = products(program, config)
    return Prepared(scales, adaround(program, nodes, batches, scales, config.weight))


def products(program: Program, config: QuantConfig) -> list[Node]:
    """The nodes to quantize, in order, without skipped layers and ops not chosen."""
    return [
        node
        for node in program.main.nodes
        if quantizable(node)
        and node.op.removesuffix("_act") in config.ops
        and not _is_skipped(node, config)
    ]


def quantized_layers(program: Program, config: QuantConfig) -> list[str]:
    """Paths of the layers of `products` and keys of `pairs`, each once, in order."""
    keys = pair_keys(program)
    chosen = {node: layer_path(node) for node in products(program, config)}
    chosen |= {node: keys[node] for node in pairs(program, config)}
    order = [chosen[node] for node in program.main.nodes if node in chosen]
    return list(dict.fromkeys(order))


def _is_skipped(node: Node, config: QuantConfig) -> bool:
    weight = node.inputs[1]
    return weight is not None and is_in(weight.name, config.skip)


def unquantized(program: Program, config: QuantConfig) -> dict[str, str]:
    """Paths of the layers with a weight, and keys of the products of activations, that
    stay in float32, and why.
    """
    chosen = {*products(program, config), *pairs(program, config)}
    keys = pair_keys(program)
    reasons = {}
    for node in program.main.nodes:
        kind = node.op.removesuffix("_act")
        if node in keys and node not in chosen:
            among = kind in config.ops
            reason = "named in skip" if among else f"{kind} is not among ops"
            reasons[keys[node]] = reason
            continue
        if node in chosen or kind not in _WEIGHTED or len(node.inputs) < 2:
            continue
        is_left = _is_skipped(node, config)
        if kind in WEIGHT_ALONE and kind in config.ops and not is_left:
            continue
        if is_left:
            halved = any(path == layer_path(node) for path in config.half)
            reason = "named in half" if halved else "named in skip"
        elif node.op not in PRODUCTS:
            reason = f"{kind} has no int8 operator"
        elif kind not in config.ops:
            reason = f"{kind} is not among ops"
        else:
            reason = "the weight is not a constant in float32"
        reasons[layer_path(node) or node.outputs[0].name] = reason
    return reasons


def require_products(program: Program, config: QuantConfig) -> None:
    """Check that there is something to quantize.

    Raises:
        PreconditionNotMetError: If not; it names the layers that stay in float32.
    """
    if any(f(program, config) for f in (products, operands, pairs)):
        return
    if has_flow(program):  # which interpret() refuses
        return
    found = unquantized(program, config)
    layers = ", ".join(f"{path!r} ({why})" for path, why in found.items())
    raise PreconditionNotMetError(
        "[quant_post_static] expected at least one layer to quantize, got "
        f"{layers or 'a network without weights'}"
    )


def calibrate(
    program: Program, batches: Iterable[Sequence[Array]], config: QuantConfig
) -> dict[Value, Scale]:
    """Scale of the input of each product, and of images that are rounded between them,
    measured over the batches.

    Notes in the program's metadata the greatest magnitude of every operator's float32
    result: by the path of the layer whose weight it reads, or its own name.

    Raises:
        InvalidArgumentError: If a batch has a value that is not finite, or makes a
            layer's result so.
    """
    observers: dict[Value, ActivationScale] = {}
    for node in products(program, config):
        if node.inputs[0] is not None:
            observers.setdefault(node.inputs[0], ActivationScale(config))
    for value in images_between(products(program, config), config):
        observers.setdefault(value, ActivationScale(config))
    for value in operands(program, config):
        observers.setdefault(value, ActivationScale(config))
    for node in pairs(program, config):
        for operand in operands_of(node):
            assert operand is not None
            observers.setdefault(operand, ActivationScale(config))
    peaks: dict[str, float] = {}

    for number, batch in enumerate(batches):

        def watch(value: Value, array: Array, number: int = number) -> None:
            require_finite(value, array, number)
            if value in observers:
                observers[value].observe(np.asarray(array, np.float32))
            if value.producer is not None and value.dtype == "float32":
                name = _layer_of(value.producer) or value.name
                peak = float(np.abs(array).max(initial=0.0))
                peaks[name] = max(peaks.get(name, 0.0), peak)

        interpret(program, batch, watch)
    program.metadata[OUT_THRESHOLD] = json.dumps(peaks)
    return {value: observer.scale() for value, observer in observers.items()}


def _layer_of(node: Node) -> str:
    """The path of the layer whose weight the node reads, or nothing."""
    return layer_path(node) if len(node.inputs) > 1 else ""


def convert(
    program: Program,
    scales: Mapping[Value, Scale],
    config: QuantConfig,
    sample: Sequence[Array] | None = None,
    weights: Mapping[str, RoundedWeight] | None = None,
    batches: Sequence[Sequence[Array]] = (),
) -> QuantizedModel:
    """Put fake quantization before each product and on its weight, measure what it
    does, and lower to int8.

    `program` is left as it was.
    """
    faked = with_fake_quant(program, scales, config, weights or {})
    if config.bias_correction and batches:
        correct_bias(program, faked, batches)
    report = layer_report(program, faked, sample) if sample is not None else []
    kind = f"int8 {config.activation} {config.weight}"
    return lowered(program, faked, scales, config, kind, report)


def lowered(
    program: Program,
    faked: Program,
    scales: Mapping[Value, Scale],
    config: QuantConfig,
    kind: str,
    report: Sequence[LayerReport] = (),
) -> QuantizedModel:
    """The int8 model of a program with fake quantization, which is rewritten.

    Args:
        program: In float32.
        faked: A copy of it by `with_fake_quant`.
        scales: Those of calibration.
        config: As for `with_fake_quant`.
        kind: What the file says it is.
        report: Report of the model.
    """
    lower(faked, config)
    store_in_8_bits(faked, config)
    narrow_layers(faked, config.half, "quant_post_static")
    faked.metadata["quantization"] = kind
    forget_layers(faked)
    inputs = set(program.main.inputs)
    limits = {v.name: s.reach() for v, s in scales.items() if v in inputs}
    return QuantizedModel(faked, list(report), unquantized(program, config), limits)


def with_fake_quant(
    program: Program,
    scales: Mapping[Value, Scale],
    config: QuantConfig,
    weights: Mapping[str, RoundedWeight],
) -> Program:
    """A copy in which the input and the weight of each product are rounded.

    Args:
        program: In float32.
        scales: Scales of the inputs of products, and of images between them.
        config: Which products, and how their weights are rounded, but for
        weights: those that are rounded already, by the names of the products' results.
    """
    by_name = {value.name: scale for value, scale in scales.items()}
    result = file.from_bytes(file.to_bytes(program))  # a copy
    of_activations = pairs(result, config)
    rounded: dict[Value, Value] = {}
    for node in products(result, config):
        x, weight = node.inputs[:2]
        if x is None or weight is None or x.name not in by_name:
            continue
        nodes: list[Node] = []
        if x not in rounded:
            nodes = _rounding(result, x, by_name[x.name])
            rounded[x] = nodes[-1].outputs[0]
        axis = PRODUCTS[node.op][1]
        if node.outputs[0].name in weights:
            values, steps = weights[node.outputs[0].name]
            weight = result.constant(values, name=weight.name)
        else:
            steps = weight_scale(np.asarray(weight.data), axis, config.weight)
        constant = result.constant(steps, name=f"{weight.name}.scale")
        along = axis if steps.size > 1 else -1
        nodes.append(
            make_node(result, "fake_quant", [weight, constant], {"axis": along})
        )
        at = result.main.nodes.index(node)
        result.main.nodes[at:at] = nodes
        node.inputs[0], node.inputs[1] = rounded[x], nodes[-1].outputs[0]
    round_pairs(result, of_activations, by_name, _rounding)
    round_operands(result, by_name, config, _rounding)
    round_images(result, products(result, config), by_name, config)
    return result


def _rounding(program: Program, x: Value, scale: Scale) -> list[Node]:
    step = program.constant(np.array([scale.scale], np.float32), name=f"{x.name}.scale")
    if not scale.offset:
        return [make_node(program, "fake_quant", [x, step], {})]
    shift = np.array([scale.offset], np.float32)
    offset = program.constant(shift, name=f"{x.name}.offset")
    before = make_node(program, "sub", [x, offset], {})
    fake = make_node(program, "fake_quant", [before.outputs[0], step], {})
    return [before, fake, make_node(program, "add", [fake.outputs[0], offset], {})]
