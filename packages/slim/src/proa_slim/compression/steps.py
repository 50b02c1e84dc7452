"""Steps of a compression: pruning, distillation, quantization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from proa.ir import file
from proa.ir.program import Program, Value
from proa_slim.compression.model import renew_norms
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import Samples
from proa_slim.compression.training import Distiller
from proa_slim.config import QuantConfig
from proa_slim.loading import LoadedNetwork
from proa_slim.prune import DependencyGraph, PruningPlan, prune_program
from proa_slim.prune.criteria import Scoring
from proa_slim.prune.selection import Selector, bisect, impossible
from proa_slim.prune.tradeoff import HIGHEST
from proa_slim.quant import (
    AnalysisPTQ,
    quant_post_dynamic,
    quant_post_static,
    slow_in_int8,
)
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.post_training import (
    lowered,
    prepare,
    products,
    quantizable_program,
    require_products,
    with_fake_quant,
)
from proa_slim.quant.recording import read_batches


def copied(program: Program) -> Program:
    """A program of its own."""
    return file.from_bytes(file.to_bytes(program))


def pruned(
    program: Program, recipe: Recipe, share: float
) -> tuple[Program, PruningPlan]:
    """The program without a share of its multiply-adds, by one ratio for all groups of
    channels.

    Raises:
        PreconditionNotMetError: If it cannot lose so many; it names the layer in the
            way.
    """
    weights = [v for v in program.constants() if v.dtype.startswith("float")]
    graph = DependencyGraph(program, weights)
    scoring = Scoring(graph, recipe.criterion, lambda value: np.asarray(value.data))
    selector = Selector(scoring, recipe.align)
    names = [group.name for group in graph.groups]
    ratios, reached = bisect(
        lambda level: dict.fromkeys(names, HIGHEST * level),
        selector.saved_flops,
        share,
    )
    if reached < share:
        remaining = selector.remaining(ratios)
        raise impossible(graph, remaining, "the multiply-adds", share, reached)
    ratio = next(iter(ratios.values()))
    return prune_program(program, ratio, recipe.criterion, recipe.align)


def distilled(
    student: Program,
    distiller: Distiller,
    samples: Samples,
    recipe: Recipe,
    folder: Path,
) -> Program:
    """The student, trained on the outputs of the distiller's teacher."""
    student = copied(student)
    renew_norms(student, samples.batches(256)[:4])
    if recipe.epochs:
        distiller.train(
            student, "distillation", recipe.epochs, recipe.learning_rate,
            folder / "distillation.epoch",
        )  # fmt: skip
    return student


def int8(
    program: Program, samples: Samples, config: QuantConfig, recipe: Recipe
) -> Any:
    """The int8 model of one setting."""
    network = LoadedNetwork(copied(program))
    batches = _calibration(samples, recipe)
    return quant_post_static(cast(Any, network), network.specs(), batches, config)


def faster_int8(
    program: Program, samples: Samples, config: QuantConfig, recipe: Recipe
) -> QuantizedModel:
    """The int8 model of one setting without the layers that int8 makes slower.

    Raises:
        PreconditionNotMetError: If it makes none faster.
        InvalidArgumentError: If sizes of inputs are not known.
    """
    network = cast(Any, LoadedNetwork(copied(program)))
    batches = _calibration(samples, recipe)
    if recipe.rest == "float32":
        faster = replace(config, only_faster=True)
        return quant_post_static(network, network.specs(), batches, faster)
    slow = slow_in_int8(network, network.specs(), config, threads=recipe.threads)
    halved = replace(config, half=(*config.half, *slow))
    model = quant_post_static(network, network.specs(), batches, halved)
    model.unquantized.update({path: str(speed) for path, speed in slow.items()})
    return model


def trained_int8(
    program: Program,
    distiller: Distiller,
    samples: Samples,
    config: QuantConfig,
    recipe: Recipe,
    folder: Path,
) -> QuantizedModel:
    """The int8 model of one setting, trained with the rounding in place: ranges are
    those of calibration, and gradients go straight through.
    """
    network = cast(Any, LoadedNetwork(copied(program)))
    config = replace(config.by_path(network), round_type="round")
    whole = quantizable_program(network, network.specs(), config)
    batches = read_batches(_calibration(samples, recipe), whole)
    require_products(whole, config)
    scales, _ = prepare(whole, batches, config)
    faked = with_fake_quant(whole, scales, config, {})
    for value in _learned(faked, config):
        value.kind = "param"
    distiller.train(
        faked, "training in int8", recipe.qat_epochs, recipe.qat_learning_rate,
        folder / "int8.epoch",
    )  # fmt: skip
    return lowered(whole, faked, scales, config, f"int8 trained {config.weight}")


def _learned(faked: Program, config: QuantConfig) -> list[Value]:
    """Weights and biases of the products: constants, where norms went into them."""
    found = []
    for node in products(faked, config):
        weight = node.inputs[1]
        source = None if weight is None else weight.producer
        found += [None if source is None else source.inputs[0], *node.inputs[2:3]]
    return [value for value in found if value is not None]


def weights_only(program: Program, recipe: Recipe) -> QuantizedModel:
    """Weights in fewer bits."""
    network = LoadedNetwork(copied(program))
    bits: Any = int(recipe.target.removeprefix("weights"))
    return quant_post_dynamic(cast(Any, network), network.specs(), bits)


def mixed(
    program: Program,
    samples: Samples,
    config: QuantConfig,
    recipe: Recipe,
    goal: tuple[Callable[[QuantizedModel], float], float, Path],
    progress: bool,
) -> QuantizedModel:
    """The int8 model with few layers in ``recipe.rest`` that reaches a goal.

    Args:
        goal: The metric, what it must reach, and the folder of its evaluations.

    Raises:
        PreconditionNotMetError: If no layer in int8 reaches it; it names the best.
    """
    metric, wanted, folder = goal
    network = LoadedNetwork(copied(program))
    analysis = AnalysisPTQ(
        cast(Any, network), network.specs(), _calibration(samples, recipe), metric,
        folder, resume=True, quant_config=config, progress=progress,
    )  # fmt: skip
    return analysis.get_target_quant_model(wanted, recipe.rest)


def _calibration(samples: Samples, recipe: Recipe) -> Any:
    part = samples.part(slice(recipe.calibration))
    return part.batches(recipe.batch_size)
