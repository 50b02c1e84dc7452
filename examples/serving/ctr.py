"""Click-through rate: who sees what and when in, the probability of a click out.

A factorization machine with a hidden part (DeepFM) learns from impressions that are
drawn from known probabilities, so that what it finds can be compared with the truth.
Its inputs are tensors: there is no step before the network.

Source: H. Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR
Prediction", 2017.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from training import Array, fit, save

import proa
from proa import nn

SIZES = (40, 60, 12, 7)  # user groups, advertisements, places, days
WIDTH, BATCH, STEPS = 8, 1024, 800
_truth = np.random.default_rng(11)
_SINGLE = [_truth.normal(0, 0.4, size) for size in SIZES]
_LIKING = _truth.normal(0, 1, (SIZES[0], 4)) @ _truth.normal(0, 0.6, (4, SIZES[1]))


def impressions(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """(count, 4) fields, and the probability that each is clicked."""
    fields = np.stack([rng.integers(size, size=count) for size in SIZES], 1)
    odds = -1.0 + _LIKING[fields[:, 0], fields[:, 1]]
    for at, values in enumerate(_SINGLE):
        odds = odds + values[fields[:, at]]
    return fields, (1 / (1 + np.exp(-odds))).astype(np.float32)


class DeepFM(nn.Layer):
    """Fields (batch, 4) to log odds (batch,)."""

    def __init__(self) -> None:
        super().__init__()
        self.single = nn.LayerList([nn.Embedding(size, 1) for size in SIZES])
        self.factors = nn.LayerList([nn.Embedding(size, WIDTH) for size in SIZES])
        self.deep = nn.Sequential(
            nn.Linear(WIDTH * len(SIZES), 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, fields: proa.Tensor) -> proa.Tensor:
        columns = range(len(SIZES))
        single = sum(self.single[at](fields[:, at]) for at in columns)
        factors = proa.stack([self.factors[at](fields[:, at]) for at in columns], 1)
        # The sum of all products of two, from the square of the sum.
        crossed = 0.5 * (factors.sum(1) ** 2 - (factors**2).sum(1)).sum(
            -1, keepdim=True
        )
        deep = self.deep(factors.flatten(1))
        return (single + crossed + deep).squeeze(-1)


class Probability(nn.Layer):
    """What is served: a probability rather than log odds."""

    def __init__(self, net: nn.Layer) -> None:
        super().__init__()
        self.net = net

    def forward(self, fields: proa.Tensor) -> proa.Tensor:
        return nn.functional.sigmoid(self.net(fields))


def _draw(rng: np.random.Generator) -> tuple[Array, ...]:
    fields, chance = impressions(rng, BATCH)
    return fields, (rng.random(BATCH) < chance).astype(np.float32)


def build(folder: Path) -> None:
    """Train, and write the repository."""
    proa.seed(0)
    net = DeepFM()
    loss = nn.functional.binary_cross_entropy_with_logits
    fit(net, _draw, loss, steps=STEPS, rate=1e-2)
    save(
        Probability(net),
        folder,
        "ctr",
        {"fields": ([None, len(SIZES)], "int64")},
        "click",
        max_batch=256,
        cache=True,
    )
