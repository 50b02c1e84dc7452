"""Steps of a compression: channels removed, the model imitated, numbers rounded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

import proa
from proa.ir import file
from proa.ir.program import Program
from proa_slim.compression.model import LoadedNetwork, renew_norms, runner
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import Samples
from proa_slim.config import QuantConfig
from proa_slim.distill import kl_loss, l2_loss
from proa_slim.prune import DependencyGraph, PruningPlan, prune_program
from proa_slim.prune.criteria import Scoring
from proa_slim.prune.selection import Selector, bisect, impossible
from proa_slim.prune.tradeoff import HIGHEST
from proa_slim.quant import AnalysisPTQ, quant_post_dynamic, quant_post_static
from proa_slim.quant.model import QuantizedModel


def copied(program: Program) -> Program:
    """A program of its own."""
    return file.from_bytes(file.to_bytes(program))


def pruned(program: Program, recipe: Recipe) -> tuple[Program, PruningPlan]:
    """The program without as many multiply-adds as the recipe says, by one ratio for
    all groups of channels.

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
        recipe.prune,
    )
    if reached < recipe.prune:
        kept = selector.kept(ratios)
        raise impossible(graph, kept, "the multiply-adds", recipe.prune, reached)
    ratio = next(iter(ratios.values()))
    return prune_program(program, ratio, recipe.criterion, recipe.align)


def imitated(
    student: Program, teacher: Program, samples: Samples, recipe: Recipe, progress: bool
) -> Program:
    """The student, trained to give what the teacher gives, and the labels if there are
    any: KL at temperature 2 and cross entropy where outputs are scores, else the mean
    square.
    """
    student = copied(student)
    renew_norms(student, samples.batches(256)[:4])
    if not recipe.epochs:
        return student
    network = LoadedNetwork(student)
    network.train()
    target = runner(teacher)
    steps = -(-len(samples) // recipe.batch_size)
    rate = proa.optimizer.lr.CosineAnnealingDecay(
        recipe.learning_rate, recipe.epochs * steps
    )
    adam = proa.optimizer.Adam(rate, parameters=network.trained_parameters())
    order = np.random.default_rng(0)
    for epoch in range(recipe.epochs):
        total = 0.0
        for rows in np.array_split(order.permutation(len(samples)), steps):
            arrays = [array[rows] for array in samples.inputs]
            labels = None if samples.labels is None else samples.labels[rows]
            result = network(*[proa.to_tensor(array) for array in arrays])
            loss = _loss(result, target(*arrays), labels)
            loss.backward()
            adam.step()
            adam.clear_grad()
            rate.step()
            total += float(loss)
        if progress:
            line = f"[compress] imitation {epoch + 1}/{recipe.epochs}: "
            print(f"{line}loss {total / steps:.5f}", file=sys.stderr, flush=True)
    network.eval()
    tensors = dict(network.named_parameters())
    for value in student.constants():
        if value.name in tensors and value.kind == "param":
            value.data = tensors[value.name].numpy()
    return student


def _loss(result: Any, wanted: Any, labels: Any) -> Any:
    several = result if isinstance(result, (list, tuple)) else [result]
    targets = wanted if isinstance(wanted, list) else [wanted]
    total: Any = None
    for number, (x, target) in enumerate(zip(several, targets, strict=True)):
        teacher = proa.to_tensor(target)
        if len(x.shape) == 2 and x.shape[1] > 1:
            term = kl_loss(teacher, x, temperature=2.0)
            if labels is not None and number == 0:
                entropy = proa.nn.functional.cross_entropy(x, proa.to_tensor(labels))
                term = term + entropy.mean()
        else:
            term = l2_loss(teacher, x)
        total = term if total is None else total + term
    return total


def int8(
    program: Program, samples: Samples, config: QuantConfig, recipe: Recipe
) -> Any:
    """The int8 model of one setting."""
    network = LoadedNetwork(copied(program))
    batches = _calibration(samples, recipe)
    return quant_post_static(cast(Any, network), network.specs(), batches, config)


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
    goal: tuple[Callable[[Any], float], float, str],
    progress: bool,
) -> QuantizedModel:
    """The int8 model with few layers in float32 that reaches a goal.

    Args:
        goal: The metric, what it must reach, and the folder of its evaluations.

    Raises:
        PreconditionNotMetError: If no layer in int8 reaches it; it names the best.
    """
    metric, wanted, folder = goal
    network = LoadedNetwork(copied(program))
    analysis = AnalysisPTQ(
        cast(Any, network), network.specs(), _calibration(samples, recipe), metric,
        folder, quant_config=config, progress=progress,
    )  # fmt: skip
    return analysis.get_target_quant_model(wanted)


def _calibration(samples: Samples, recipe: Recipe) -> Any:
    part = samples.part(slice(recipe.calibration))
    return part.batches(recipe.batch_size)
