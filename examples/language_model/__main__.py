"""A transformer that writes like Python's manual, letter by letter.

The text is Python's own reference, ``pydoc_data.topics``: 465,000 characters that come
with every Python. The last tenth is for testing. After training the model writes a
few lines of its own.

    python examples/language_model  test loss <= 2.3 bits a character
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options

import proa
from proa import nn

LENGTH, WIDTH, HEADS, LAYERS = 96, 128, 4, 3
BATCH, STEPS, EVERY = 24, 450, 50


class Writer(nn.Layer):
    """Characters in, scores of the next character out."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(characters, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu",
            normalize_before=True,
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH))
        self.score = nn.Linear(WIDTH, characters)

    def forward(self, text: proa.Tensor) -> proa.Tensor:
        """(batch, length) -> (batch, length, characters)."""
        length = text.shape[1]
        x = self.letter(text) + self.place(proa.arange(length))
        future = proa.triu(proa.full([length, length], -1e9), 1)
        return self.score(self.encoder(x, future))


def batches(text: NDArray[np.int64], random: np.random.Generator) -> proa.Tensor:
    """Random chunks of the text, each one character longer than the model's window."""
    starts = random.integers(len(text) - LENGTH - 1, size=BATCH)
    return proa.to_tensor(text[starts[:, None] + np.arange(LENGTH + 1)])


def bits(network: Writer, contexts: proa.Tensor) -> proa.Tensor:
    """Mean bits a character."""
    scores = network(contexts[:, :-1])
    return nn.functional.cross_entropy(scores, contexts[:, 1:]) / math.log(2)


@proa.no_grad()
def written(network: Writer, text: list[int], count: int, seed: int) -> list[int]:
    """The text continued, each character drawn from the model's scores."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        scores = network(proa.to_tensor([text[-LENGTH:]]))[0, -1].numpy()
        chances = np.exp((scores - scores.max()) / 0.8)
        text = [*text, int(random.choice(len(chances), p=chances / chances.sum()))]
    return text


def main() -> int:
    """Train, measure now and then, write the curve and a few lines."""
    arguments = options("language_model", __doc__).parse_args()
    proa.seed(arguments.seed)
    random = np.random.default_rng(arguments.seed)
    manual = "\n".join(topics[name] for name in sorted(topics))
    letters = sorted(set(manual))
    number = {letter: i for i, letter in enumerate(letters)}
    text = np.array([number[letter] for letter in manual], np.int64)
    train, test = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    # The same chunks of the test text each time.
    fixed = np.random.default_rng(1)
    held = [batches(test, fixed) for _ in range(8)]

    network = Writer(len(letters))
    rate = proa.optimizer.lr.OneCycleLR(3e-3, STEPS, phase_pct=0.1)
    optimizer = proa.optimizer.AdamW(
        rate, beta2=0.99, parameters=network.parameters(),
        weight_decay=0.05, grad_clip=nn.ClipGradByGlobalNorm(1.0),
    )  # fmt: skip
    curve = Curve("language_model", "test_bits", 2.3, False, arguments.out)
    losses = []
    for step in range(1, STEPS + 1):
        loss = bits(network, batches(train, random))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step()
        losses.append(float(loss))
        if step % EVERY == 0:
            with proa.no_grad():
                measured = float(np.mean([float(bits(network, b)) for b in held]))
            curve.add(step, train_bits=float(np.mean(losses)), test_bits=measured)
            losses = []
    begin = [number[letter] for letter in 'The "for" statement ']
    lines = "".join(letters[i] for i in written(network, begin, 240, arguments.seed))
    print(f"\n{lines}\n")
    return curve.finish()


if __name__ == "__main__":
    raise SystemExit(main())
