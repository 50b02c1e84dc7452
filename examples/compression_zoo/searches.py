"""Steps that look for another architecture: fewer multiply-adds for the same task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import proa
import proa_slim as slim
from proa_slim import search

from . import networks
from .steps import Job
from .tasks import eager, fit, outputs_of

#: The head of BlazeFace for one class, as a further kind of block.
search.BLOCKS["detector"] = lambda block: networks.detector(
    block.in_channels, block.channels // 6, 1
)


def blaze_blocks(arch: Mapping[str, Any]) -> list[search.Block | None]:
    """BlazeFace for images of 64: a stem, single and double blocks, a head.

    Heads have 4 anchors of 5 numbers and one class each.
    """
    wide, narrow = 32, 24
    plan: list[search.Block | None] = [search.Block("conv", 3, 16, 5, 2)]
    plan += [search.Block("blaze", 16, narrow, arch["kernel1"], 2)]
    for number in (2, 3):
        kernel = arch[f"kernel{number}"]
        plan.append(search.Block("blaze", narrow, narrow, kernel) if kernel else None)
    plan.append(search.Block("double_blaze", narrow, wide, arch["kernel4"], 2, 0.5))
    for number in (5, 6, 7):
        kernel = arch[f"kernel{number}"]
        plan.append(
            search.Block("double_blaze", wide, wide, kernel, 1, 0.5) if kernel else None
        )
    return [*plan, search.Block("detector", wide, 4 * 6)]


#: 0 leaves a block out.
BLAZE_SPACE = search.ChoiceSpace(
    {f"kernel{n}": [5, 3] if n in (1, 4) else [5, 3, 0] for n in range(1, 8)},
    blaze_blocks,
)


def deeplab(arch: Mapping[str, Any]) -> proa.nn.Layer:
    """DeepLabv3+ over MobileNetV2 of an architecture."""
    backbone = networks.mobilenet_v2(arch["width"], arch["kernel"], arch["expansion"])
    return networks.DeepLab(backbone, arch["head"], 4)


DEEPLAB_SPACE = search.ChoiceSpace(
    {
        "width": [12, 10, 8], "kernel": [3, 5], "expansion": [4, 3, 2],
        "head": [24, 16],
    },
    deeplab,
)  # fmt: skip


def _within(job: Job, space: search.ChoiceSpace, share: float) -> Callable[[Any], bool]:
    """Whether an architecture has at most this share of the first one's
    multiply-adds."""
    limit = share * slim.flops(job.network, job.shape)
    known: dict[tuple[int, ...], bool] = {}

    def constraint(tokens: Any) -> bool:
        key = tuple(int(t) for t in tokens)
        if key not in known:
            known[key] = slim.flops(space.token2arch(key), job.shape) <= limit
        return known[key]

    return constraint


@dataclass(frozen=True)
class OneShotSearch:
    """Train all architectures at once in a supernet, and take the best by evolution.

    Args:
        space: Whose architectures are sequences of blocks.
        flops: The greatest share of the network's multiply-adds.
        epochs: Epochs of the supernet.
        steps: Architectures to be evaluated.
    """

    space: search.ChoiceSpace
    flops: float
    epochs: float
    steps: int

    def __call__(self, job: Job) -> None:
        one_shot = search.OneShot(self.space, sampling="uniform")
        data = job.task.samples(job.size.train, "train")
        random = np.random.default_rng(0)
        count = max(1, round(self.epochs * job.size.epochs))
        one_shot.train(
            lambda: data.batches(random),
            proa.optimizer.AdamW(2e-3, parameters=one_shot.supernet.parameters()),
            lambda outputs, targets: job.task.loss(outputs, *targets),
            count, progress=True,
        )  # fmt: skip
        best = one_shot.search(
            _metric(job), [proa.to_tensor(x) for x in job.calibration(4)], self.steps,
            min(8, self.steps), constraint=_within(job, self.space, self.flops),
        )  # fmt: skip
        _take(job, self.space, best)


@dataclass(frozen=True)
class TrialSearch:
    """Train some architectures for a short time, and take the best.

    Args:
        space: The architectures.
        flops: The greatest share of the network's multiply-adds.
        images: Images of each trial's one epoch.
        steps: Trials.
    """

    space: search.ChoiceSpace
    flops: float
    images: int
    steps: int

    def __call__(self, job: Job) -> None:
        metric = _metric(job)
        size = replace(job.size, train=min(self.images, job.size.train), epochs=1.0)

        def evaluate(trial: search.Trial) -> float:
            proa.seed(trial.number)
            network = trial.network()
            fit(network, job.task, size, 1, 4e-3, log=job.log)
            return metric(network)

        study = search.Search(
            self.space, "evolution", constraint=_within(job, self.space, self.flops)
        )
        best = study.run(evaluate, self.steps)
        _take(job, self.space, best)


def _metric(job: Job) -> Callable[[proa.nn.Layer], float]:
    """The task's metric on images for validation."""
    data = job.task.samples(job.size.test // 4, "validation")

    def metric(network: proa.nn.Layer) -> float:
        return job.task.metric(outputs_of(eager(network), data), *data.targets)

    return metric


def _take(job: Job, space: search.ChoiceSpace, best: search.Record) -> None:
    """Go on with a new network of the architecture that was found."""
    job.log(f"found {best.arch}")
    job.notes["architecture"] = dict(best.arch)
    proa.seed(1)
    job.network = space.token2arch(best.tokens)
