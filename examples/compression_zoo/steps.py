"""What recipes are made of: steps that take a network and give a cheaper one."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import proa
import proa_slim as slim

from .tasks import BATCH, Size, Task, fit


@dataclass
class Job:
    """What a step works on.

    Attributes:
        task: What the network is for.
        size: How much is trained.
        build: Makes a new network, as the one that is compressed was.
        teacher: Gives the trained network of a name.
        log: Reports progress.
        network: In float32, as it is now.
        quantized: The int8 model of `network`, if there is one.
        notes: What the steps have to say about the result.
    """

    task: Task
    size: Size
    build: Callable[[], proa.nn.Layer]
    teacher: Callable[[str], proa.nn.Layer]
    log: Callable[[str], None]
    network: proa.nn.Layer
    quantized: slim.QuantizedModel | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> list[int | None]:
        """The shape of the input, a batch of any size."""
        return [None, 3, self.task.image, self.task.image]

    def calibration(self, batches: int = 8) -> list[Any]:
        """Some batches of training images."""
        data = self.task.samples(self.size.train, "train")
        starts = range(0, min(batches * BATCH, len(data.images)), BATCH)
        return [data.inputs(slice(i, i + BATCH)) for i in starts]


class Step(Protocol):
    """One step of a recipe; changes the job's network."""

    def __call__(self, job: Job) -> None: ...


@dataclass(frozen=True)
class Renew:
    """Begin with a network that has learned nothing."""

    def __call__(self, job: Job) -> None:
        proa.seed(1)
        job.network = job.build()


@dataclass(frozen=True)
class Prune:
    """Remove channels until this share of the multiply-adds is gone.

    Args:
        flops: The share.
        criterion: As for `proa_slim.Pruner`.
    """

    flops: float
    criterion: str = "fpgm"

    def __call__(self, job: Job) -> None:
        pruner = slim.FilterPruner(job.network, job.shape, criterion=self.criterion)
        ratios = pruner.get_uniform_ratios(self.flops)
        plan = pruner.prune_groups(ratios)
        job.log(f"removed {plan.pruned_flops:.0%} of the multiply-adds, "
                f"{plan.pruned_size:.0%} of the parameters")  # fmt: skip


@dataclass(frozen=True)
class Train:
    """Train, perhaps with a teacher.

    Args:
        epochs, rate: As for `fit`.
        teacher: The name of a network to distil.
        weight: Weight of the distillation loss, added to the task's own.
    """

    epochs: float
    rate: float = 2e-3
    teacher: str | None = None
    weight: float = 1.0

    def __call__(self, job: Job) -> None:
        loss_of = None
        if self.teacher is not None:
            term = slim.DistillLoss(job.task.distillation, weight=self.weight)
            distill = slim.Distill([term], job.network, job.teacher(self.teacher))

            def loss_of(images: Any, targets: Any) -> Any:
                outputs, _, distilled = distill(images)
                return job.task.loss(outputs, *targets) + distilled

        fit(job.network, job.task, job.size, self.epochs, self.rate, loss_of, job.log)


@dataclass(frozen=True)
class Calibrate:
    """Quantize to int8 after training.

    Args:
        config: How.
    """

    config: slim.QuantConfig = field(default_factory=slim.QuantConfig)

    def __call__(self, job: Job) -> None:
        job.quantized = slim.quant_post_static(
            job.network, job.task.specs, job.calibration(), self.config
        )
        job.notes["float32 layers"] = sorted(job.quantized.unquantized)


@dataclass(frozen=True)
class TrainQuantized:
    """Quantize to int8 in further training.

    Args:
        epochs, rate: As for `fit`.
        config: How.
        only_faster: Whether layers that int8 makes slower on this machine have weights
            of 16 bits instead; all of them, if it makes none faster.
    """

    epochs: float
    rate: float = 3e-4
    config: slim.QuantConfig = field(
        default_factory=lambda: slim.QuantConfig(activation="moving_average")
    )
    only_faster: bool = False

    def __call__(self, job: Job) -> None:
        config = self.config
        if self.only_faster:
            slow = slim.QAT(config).slow_in_int8(job.network, job.task.specs)
            job.notes["slow in int8"] = {k: str(speed) for k, speed in slow.items()}
            products = {
                path
                for path, layer in job.network.named_sublayers()
                if isinstance(layer, (proa.nn.Conv2D, proa.nn.Linear))
            }
            if products <= slow.keys():  # int8 makes nothing faster
                fit(
                    job.network, job.task, job.size, self.epochs, self.rate,
                    log=job.log,
                )  # fmt: skip
                job.quantized = slim.half_weights(job.network, job.task.specs)
                return
            config = replace(config, half=tuple(slow))
        qat = slim.QAT(config)
        student = qat.quantize(job.network, job.task.specs)
        fit(student, job.task, job.size, self.epochs, self.rate, log=job.log)
        job.quantized = qat.convert(student, job.task.specs)


def copied(network: proa.nn.Layer) -> proa.nn.Layer:
    """A network that shares nothing with the first."""
    return copy.deepcopy(network)


def float_file(network: proa.nn.Layer, task: Task) -> bytes:
    """The model file of a network."""
    network.eval()
    stream = io.BytesIO()
    proa.jit.save(network, stream, task.specs)
    return stream.getvalue()
