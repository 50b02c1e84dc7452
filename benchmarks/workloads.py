"""The training workloads and what can train them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networks
import numpy as np
from dialects import Dialect, layers_dialect, precision_of, torch_dialect

Step = Callable[[], object]
Inputs = list[np.ndarray]


@dataclass(frozen=True)
class Workload:
    """A network, its batch, and how a step of it is judged."""

    name: str
    network: Callable[[Dialect], Any]
    inputs: Callable[[np.random.Generator], Inputs]
    labels: tuple[int, int]  # how many, of how many classes
    optimizer: str
    rounds: int
    limit: float  # our time over the best peer's must not exceed this
    image: bool = False  # rank 4, so there is a channels-last form


def images(*shape: int) -> Callable[[np.random.Generator], Inputs]:
    """What makes a batch of normal numbers."""
    return lambda rng: [rng.standard_normal(shape, np.float32)]


def _tokens(rng: np.random.Generator) -> Inputs:
    words = rng.integers(0, 30522, (4, 128))
    places = np.broadcast_to(np.arange(128), (4, 128)).copy()
    return [words, places, np.zeros((4, 128), np.int64)]


def _features(rng: np.random.Generator) -> Inputs:
    values = rng.integers(0, 1_000_000, (512, 26))
    return [values, rng.standard_normal((512, 13), np.float32)]


WORKLOADS = [
    Workload("lenet_28_b64", networks.lenet, images(64, 1, 28, 28), (64, 10), "adam",
             11, 1.0, image=True),
    Workload("mlp_784_b64", networks.mlp, images(64, 784), (64, 10), "adam", 11, 1.0),
    Workload("wide_deep_b512", networks.wide_deep, _features, (512, 2), "sgd", 11, 1.0),
    Workload("encoder_128_b16", networks.encoder, images(16, 128, 256), (16, 10),
             "adam", 5, 1.0),
    Workload("lstm_35_b20", networks.lstm_model,
             lambda rng: [rng.integers(0, 10000, (20, 35))], (700, 10000), "sgd", 5,
             1.0),
    Workload("resnet18_32_b64", networks.resnet18, images(64, 3, 32, 32), (64, 10),
             "adam", 3, 1.05, image=True),
    Workload("mobilenet_v1_224_b8", networks.mobilenet_v1, images(8, 3, 224, 224),
             (8, 1000), "adam", 3, 1.0, image=True),
    Workload("resnet50_224_b8", networks.resnet50, images(8, 3, 224, 224), (8, 1000),
             "adam", 3, 1.0, image=True),
    Workload("bert_128_b4", networks.bert_base, _tokens, (4, 2), "adam", 3, 1.0),
]  # fmt: skip
BY_NAME = {w.name: w for w in WORKLOADS}

#: Ours first; a peer whose package is missing is left out.
CONTENDERS = (
    "proa", "proa_compiled", "torch", "torch_nhwc", "torch_compile", "paddle", "jax",
)  # fmt: skip


def set_threads(contender: str, count: int) -> None:
    """Let a framework use that many threads."""
    if contender.startswith("proa"):
        importlib.import_module("proa").set_num_threads(count)
    elif contender.startswith("torch"):
        importlib.import_module("torch").set_num_threads(count)
    elif contender == "paddle":
        importlib.import_module("paddle").base.core.set_num_threads(count)
    elif contender == "jax":
        _limit_jax(count)


def _limit_jax(count: int) -> None:
    """JAX makes as many threads as there are cores when it starts, and keeps them."""
    if not hasattr(os, "sched_getaffinity"):
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:count])
    try:
        importlib.import_module("jax").devices()
    finally:
        os.sched_setaffinity(0, cores)


def step_of(contender: str, work: Workload, precision: str) -> Step | None:
    """One training step: forward, cross-entropy, backward, optimizer. None if this
    contender has no such form of it; ImportError if it is not there.
    """
    if contender == "jax":
        jax_steps = importlib.import_module("jax_steps")
        result: Step | None = jax_steps.step_of(work, precision)
        return result
    if contender in ("proa", "paddle"):
        f = layers_dialect(contender, importlib.import_module(contender))
        return _step(f, work, precision)
    if contender == "proa_compiled":
        proa = importlib.import_module("proa")
        whole = proa.jit.to_static
        return _step(layers_dialect("proa", proa), work, precision, whole=whole)
    torch = importlib.import_module("torch")
    if contender == "torch_nhwc":
        if not work.image:
            return None
        last = {"memory_format": torch.channels_last}
        return _step(torch_dialect(torch), work, precision, lambda t: t.to(**last))
    wrap = torch.compile if contender == "torch_compile" else None
    return _step(torch_dialect(torch), work, precision, wrap=wrap)


def data_of(work: Workload) -> tuple[Inputs, np.ndarray]:
    """The batch, which is the same for every contender."""
    rng = np.random.default_rng(0)
    count, classes = work.labels
    return work.inputs(rng), rng.integers(0, classes, count)


def _step(
    f: Dialect,
    work: Workload,
    precision: str,
    convert: Callable[[Any], Any] | None = None,
    wrap: Callable[[Any], Any] | None = None,
    whole: Callable[[Step], Step] | None = None,
) -> Step:
    network = work.network(f)
    arrays, labels = data_of(work)
    inputs, y = [f.tensor(a) for a in arrays], f.tensor(labels)
    if convert is not None:
        network, inputs = convert(network), [convert(x) for x in inputs]
    optimizer = f.optimizer(work.optimizer, network.parameters())
    forward = network if wrap is None else wrap(network)
    context = precision_of(f, precision)

    def step() -> object:
        with context():
            loss = f.cross_entropy(forward(*inputs), y)
        loss.backward()
        optimizer.step()
        f.zero(optimizer)
        return loss

    return step if whole is None else whole(step)
