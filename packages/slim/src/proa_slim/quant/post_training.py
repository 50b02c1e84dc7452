"""Post-training quantization: calibrate on real batches, then convert."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir import file
from proa.ir.builder import make_node
from proa.ir.passes import optimize
from proa.ir.program import Array, Node, Program, Value
from proa_slim.config import QuantConfig
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import lower, quantizable
from proa_slim.quant.model import LayerReport, QuantizedModel
from proa_slim.quant.observers import Observer, activation_observer

#: An array, a tensor, or a sequence of them (what follows the inputs is ignored).
Batch = Any


def program_of(network: proa.nn.Layer, input_spec: Sequence[Any]) -> Program:
    """The network's graph in evaluation mode, norms folded and products fused."""
    was_training = network.training
    network.eval()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.proa"
            proa.jit.save(network, str(path), list(input_spec))
            program = file.read(path)
    finally:
        if was_training:
            network.train()
    optimize(program, 3)
    return program


def quant_post_static(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    calibration: Iterable[Batch],
    config: QuantConfig | None = None,
) -> QuantizedModel:
    """Quantize a trained network to int8 with scales measured on `calibration`.

    Args:
        network: Is not changed.
        input_spec: As for `proa.jit.save`.
        calibration: Batches of real input: arrays, tensors, or sequences whose first
            items are the inputs. A hundred or so images will do.
        config: How; `QuantConfig()` if not given.

    Raises:
        PreconditionNotMetError: If `calibration` holds no batch.
        InvalidArgumentError: If a batch has fewer arrays than the network has inputs.
        NotFoundError: If `config.skip` names a layer that the network does not have.
    """
    config = config or QuantConfig()
    # The parameters of the program bear the paths of their layers.
    config = replace(config, skip=tuple(config.skipped(network)))
    program = program_of(network, input_spec)
    batches = [_arrays(batch, len(program.main.inputs)) for batch in calibration]
    if not batches:
        raise PreconditionNotMetError(
            "[quant_post_static] calibration must hold at least one batch of real "
            "input, got none"
        )
    scales = calibrate(program, batches, config)
    return convert(program, scales, config, batches[0])


def _arrays(batch: Batch, count: int) -> list[Array]:
    items = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    if len(items) < count:
        raise InvalidArgumentError(
            f"[quant_post_static] a batch must hold {count} arrays, got {len(items)}"
        )
    return [np.asarray(item) for item in items[:count]]


def products(program: Program, config: QuantConfig) -> list[Node]:
    """The nodes to quantize, in order, without skipped layers and ops not chosen."""
    return [
        node
        for node in program.main.nodes
        if quantizable(node)
        and node.op.removesuffix("_act") in config.ops
        and not any(
            node.inputs[1] is not None and node.inputs[1].name.startswith(f"{layer}.")
            for layer in config.skip
        )
    ]


def calibrate(
    program: Program, batches: Sequence[Sequence[Array]], config: QuantConfig
) -> dict[Value, float]:
    """Scale of the input of each product, measured over the batches."""
    observers: dict[Value, Observer] = {}
    for node in products(program, config):
        if node.inputs[0] is not None:
            observers.setdefault(node.inputs[0], activation_observer(config))

    def watch(value: Value, array: Array) -> None:
        if value in observers:
            observers[value].observe(np.asarray(array, np.float32))

    for batch in batches:
        interpret(program, batch, watch)
    return {value: observer.scale() for value, observer in observers.items()}


def convert(
    program: Program,
    scales: dict[Value, float],
    config: QuantConfig,
    sample: Sequence[Array] | None = None,
) -> QuantizedModel:
    """Put fake quantization before each product, measure what it does, and lower to
    int8.

    `program` is left as it was.
    """
    faked, names = _with_fake_quant(program, scales, config)
    report = _report(program, faked, names, sample) if sample is not None else []
    lower(faked, config)
    faked.metadata["quantization"] = f"int8 {config.activation} {config.weight}"
    return QuantizedModel(faked, report)


def _with_fake_quant(
    program: Program, scales: dict[Value, float], config: QuantConfig
) -> tuple[Program, dict[str, tuple[str, float]]]:
    by_name = {value.name: scale for value, scale in scales.items()}
    made = file.from_bytes(file.to_bytes(program))  # a copy
    names: dict[str, tuple[str, float]] = {}
    for node in products(made, config):
        x = node.inputs[0]
        if x is None or x.name not in by_name:
            continue
        scale = by_name[x.name]
        constant = made.constant(np.array([scale], np.float32), name=f"{x.name}.scale")
        fake = make_node(made, "fake_quant", [x, constant], {})
        made.main.nodes.insert(made.main.nodes.index(node), fake)
        node.inputs[0] = fake.outputs[0]
        names[node.outputs[0].name] = (node.op, scale)
    return made, names


def _report(
    program: Program,
    faked: Program,
    names: dict[str, tuple[str, float]],
    sample: Sequence[Array],
) -> list[LayerReport]:
    def results(of: Program) -> dict[str, Array]:
        found: dict[str, Array] = {}

        def watch(value: Value, array: Array) -> None:
            if value.name in names:
                found[value.name] = np.array(array, np.float64)

        interpret(of, sample, watch)
        return found

    exact, rough = results(program), results(faked)
    report = []
    for name, (op, scale) in names.items():
        error = exact[name] - rough[name]
        noise, signal = float((error**2).sum()), float((exact[name] ** 2).sum())
        sqnr = 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else math.inf
        report.append(LayerReport(name, op, scale, sqnr, float(np.abs(error).max())))
    return report
