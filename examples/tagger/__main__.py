"""An LSTM colours Python source as an editor does, character by character.

It reads lines of Python's own standard library and tags every character as part of a
keyword, another name, a number, a string, a comment, an operator or as blank. The right
tags come from Python's ``tokenize``. Whether a letter belongs to a string or a comment
depends on distant letters before and after it, so a bidirectional LSTM reads both ways.

    python examples/tagger          accuracy on other files >= 0.96
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options
from python_tags import TEST, TRAIN, Tagger, batches

import proa
from proa import nn

BATCH, STEPS, EVERY = 48, 600, 60


def main() -> int:
    """Train, measure now and then, write the curve."""
    arguments = options("tagger", __doc__).parse_args()
    proa.seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    letters, tags = batches(TRAIN)
    other_letters, other_tags = batches(TEST)
    network = Tagger()
    rate = proa.optimizer.lr.OneCycleLR(2e-2, STEPS)
    optimizer = proa.optimizer.Adam(
        rate, parameters=network.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    loss_of = nn.CrossEntropyLoss()

    @proa.no_grad()
    def accuracy() -> float:
        found = network(proa.to_tensor(other_letters)).argmax(axis=-1).numpy()
        return float((found == other_tags).mean())

    curve = Curve("tagger", "accuracy", 0.96, True, arguments.out)
    losses = []
    for step in range(1, STEPS + 1):
        chosen = random.integers(len(letters), size=BATCH)
        scores = network(proa.to_tensor(letters[chosen]))
        loss = loss_of(scores, proa.to_tensor(tags[chosen]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step()
        losses.append(float(loss))
        if step % EVERY == 0:
            curve.add(step, loss=float(np.mean(losses)), accuracy=accuracy())
            losses = []
    return curve.finish()


if __name__ == "__main__":
    raise SystemExit(main())
