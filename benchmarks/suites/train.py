"""Whole training steps on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case

import proa
from proa.vision.models import LeNet


def cases(torch: object | None) -> Iterator[Case]:
    """LeNet, 28 x 28, batch 64: forward, cross-entropy, backward, Adam."""
    yield _lenet(torch)


def _lenet(torch: object | None) -> Case:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((64, 1, 28, 28), np.float32)
    label = rng.integers(0, 10, 64)
    net = LeNet()
    adam = proa.optimizer.Adam(learning_rate=1e-3, parameters=net.parameters())
    x, y = proa.to_tensor(data), proa.to_tensor(label)

    def ours() -> None:
        proa.nn.functional.cross_entropy(net(x), y).backward()
        adam.step()
        adam.clear_grad()

    contenders = {"proa": ours}
    if torch is not None:
        nn = torch.nn
        peer = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.Linear(120, 84),
            nn.Linear(84, 10),
        )
        step = torch.optim.Adam(peer.parameters(), lr=1e-3)
        a, b = torch.from_numpy(data), torch.from_numpy(label)

        def theirs() -> None:
            step.zero_grad()
            nn.functional.cross_entropy(peer(a), b).backward()
            step.step()

        contenders["torch"] = theirs
    return Case("lenet_step_b64", contenders, limit=1.0, rounds=11, slice_seconds=0.2)
