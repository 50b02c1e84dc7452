"""The tasks: their data, loss and metric, and how a network is trained for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.nn import functional as F
from proa.static import InputSpec
from proa_slim.distill import kl_loss

from . import detection, scenes, segmentation

Array = NDArray[Any]
BATCH = 16


@dataclass(frozen=True)
class Size:
    """How much is trained: images of each task, and the share of the epochs.

    The fast tests take fewer of both.
    """

    train: int = 6400
    test: int = 1000
    epochs: float = 1.0


@dataclass(frozen=True)
class Samples:
    """Images (n, 3, size, size) of uint8 and what is to be found in them."""

    images: NDArray[np.uint8]
    targets: tuple[Array, ...]

    def inputs(self, rows: Any) -> NDArray[np.float32]:
        """Images as networks take them, in [-1, 1]."""
        return self.images[rows].astype(np.float32) / np.float32(127.5) - np.float32(1)

    def batches(self, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
        """All whole batches in a random order."""
        order = random.permutation(len(self.images))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[i : i + BATCH]
            yield proa.to_tensor(self.inputs(rows)), self.tensors(rows)

    def tensors(self, rows: Any) -> tuple[Any, ...]:
        """Targets as losses take them."""
        chosen = [t[rows] for t in self.targets]
        return tuple(
            proa.to_tensor(t.astype(np.int64) if t.dtype == np.uint8 else t)
            for t in chosen
        )


@dataclass(frozen=True)
class Task:
    """What a network is trained for.

    Attributes:
        metric_name: What `metric` is called.
        image: Height and width of images.
        draw: Scenes, by their number and part.
        targets: What of the scenes is to be found.
        loss: Takes the network's outputs and the targets.
        distillation: How far a student's outputs are from the teacher's.
        metric: In percent, of arrays of outputs and targets.
    """

    metric_name: str
    image: int
    draw: Callable[[int, str], scenes.Scenes]
    targets: Callable[[scenes.Scenes], tuple[Array, ...]]
    loss: Callable[..., Any]
    distillation: Callable[[Any, Any], Any]
    metric: Callable[..., float]

    @property
    def specs(self) -> list[InputSpec]:
        """The specs of the networks' input."""
        return [InputSpec([None, 3, self.image, self.image], "float32", "image")]

    def samples(self, count: int, part: str) -> Samples:
        """Images and targets, the same for the same count."""
        drawn = _drawn(self.draw, count, part)
        return Samples(drawn.images, self.targets(drawn))


@lru_cache(maxsize=8)
def _drawn(
    draw: Callable[[int, str], scenes.Scenes], count: int, part: str
) -> scenes.Scenes:
    return draw(count, part)


def _digits(count: int, part: str) -> scenes.Scenes:
    return scenes.draw(count, 32, 1, (22, 30), 10, part, 0)


def _scenes(count: int, part: str) -> scenes.Scenes:
    return scenes.draw(count, detection.SIZE, 3, (16, 32), 3, part, 1)


def _boxes(drawn: scenes.Scenes) -> tuple[Array, ...]:
    return drawn.boxes, drawn.labels


def _accuracy(outputs: Sequence[Array], labels: Array) -> float:
    return float(100 * (outputs[0].argmax(1) == labels).mean())


_YOLO = detection.Heads(3, [(2, 3), (0, 1)], [16, 8])
_BLAZE = detection.Heads(1, [(0, 1, 2, 3)], [8])

TASKS = {
    "classification": Task(
        "accuracy", 32, _digits, lambda drawn: (drawn.labels[:, 0],),
        lambda logits, labels: F.cross_entropy(logits, labels),
        lambda teacher, student: kl_loss(teacher, student, temperature=3.0),
        _accuracy,
    ),
    "detection": Task(
        "mAP", detection.SIZE, _scenes, _boxes, _YOLO.loss, _YOLO.distillation,
        _YOLO.mean_average_precision,
    ),
    # Any digit, as BlazeFace finds faces of anybody.
    "finding": Task(
        "AP", detection.SIZE, _scenes,
        lambda drawn: (drawn.boxes, np.zeros_like(drawn.labels)),
        _BLAZE.loss, _BLAZE.distillation, _BLAZE.mean_average_precision,
    ),
    "segmentation": Task(
        "mIoU", detection.SIZE, _scenes, lambda drawn: (drawn.masks,),
        segmentation.loss, segmentation.distillation, segmentation.mean_iou,
    ),
}  # fmt: skip


# --- training


def fit(
    network: proa.nn.Layer, task: Task, size: Size, epochs: float, rate: float,
    loss_of: Callable[[Any, Any], Any] | None = None,
    log: Callable[[str], None] = print,
) -> float:  # fmt: skip
    """Train with AdamW and one cycle of the learning rate.

    Args:
        epochs: Passes over the images, to be multiplied by those of `size`.
        rate: The greatest learning rate.
        loss_of: Takes a batch and its targets; the task's loss of the network if not
            given.

    Returns:
        The mean loss of the last epoch.
    """
    data = task.samples(size.train, "train")
    count = max(1, round(epochs * size.epochs))
    total = max(10, count * (len(data.images) // BATCH))
    schedule = proa.optimizer.lr.OneCycleLR(rate, total, phase_pct=0.2)
    adam = proa.optimizer.AdamW(
        schedule, parameters=network.parameters(), weight_decay=0.02
    )
    random, mean = np.random.default_rng(0), float("nan")
    for epoch in range(count):
        network.train()
        begin, losses = time.perf_counter(), []
        for images, targets in data.batches(random):
            if loss_of is None:
                loss = task.loss(network(images), *targets)
            else:
                loss = loss_of(images, targets)
            loss.backward()
            adam.step()
            adam.clear_grad()
            schedule.step()
            losses.append(float(loss))
        mean = float(np.mean(losses))
        seconds = time.perf_counter() - begin
        log(f"epoch {epoch + 1}/{count}  loss {mean:.4f}  {seconds:.1f} s")
    network.eval()
    return mean


def outputs_of(run: Callable[[Array], Any], images: Samples) -> list[Array]:
    """Every output of a model, which takes and gives arrays, for all images."""
    parts = []
    for i in range(0, len(images.images), 100):
        found = run(images.inputs(slice(i, i + 100)))
        parts.append(list(found) if isinstance(found, (list, tuple)) else [found])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def eager(network: proa.nn.Layer) -> Callable[[Array], Any]:
    """A network in evaluation mode as a function of arrays."""
    network.eval()

    def run(x: Array) -> list[Array]:
        with proa.no_grad():
            found = network(proa.to_tensor(x))
        listed = found if isinstance(found, (list, tuple)) else [found]
        return [y.numpy() for y in listed]

    return run
