"""Whole training steps: forward, cross-entropy, backward, Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import networks
import numpy as np
from harness import Case
from networks import Dialect

#: Name: network, shape of a batch, classes, rounds, limit of the ratio to torch.
WORKLOADS: dict[
    str, tuple[Callable[[Dialect], Any], tuple[int, ...], int, int, float]
] = {
    "lenet_28_b64": (networks.lenet, (64, 1, 28, 28), 10, 11, 1.0),
    "encoder_128_b16": (networks.encoder, (16, 128, 256), 10, 5, 1.0),
    "resnet18_32_b64": (networks.resnet18, (64, 3, 32, 32), 10, 3, 1.05),
    "mobilenet_v1_224_b8": (networks.mobilenet_v1, (8, 3, 224, 224), 1000, 3, 1.0),
}


def cases(torch: ModuleType | None) -> Iterator[Case]:
    """One case a workload, identically defined for every contender."""
    for name, (make, shape, classes, rounds, limit) in WORKLOADS.items():
        dialects = [networks.proa_dialect()]
        if torch is not None:
            dialects.append(networks.torch_dialect(torch))
        steps = {f.name: _step(f, make(f), shape, classes) for f in dialects}
        yield Case(name, steps, limit=limit, rounds=rounds, slice_seconds=0.2)


def _step(
    f: Dialect, network: Any, shape: tuple[int, ...], classes: int
) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    x = f.tensor(rng.standard_normal(shape, np.float32))
    y = f.tensor(rng.integers(0, classes, shape[0]))
    optimizer = f.adam(network.parameters())

    def step() -> None:
        f.cross_entropy(network(x), y).backward()
        optimizer.step()
        f.zero(optimizer)

    return step
