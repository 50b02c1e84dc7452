"""English sentiment: a review in, the probability that it is favourable out.

A network over words and their neighbours learns reviews that are put together from a
lexicon, in which "not" negates what follows. For real reviews the lexicon is the part
to replace.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from training import Array, fit, padded, save, save_python

import proa
from proa import nn

LEXICON = {
    "good": "good great wonderful lovely moving funny brilliant fine superb charming",
    "bad": "bad awful dull boring weak silly poor terrible tedious clumsy",
    "thing": "film plot cast music ending story dialogue hero scene camera",
}
GOOD, BAD, THINGS = (text.split() for text in LEXICON.values())
FRAMES = ("the {} was {}", "a {} that is {}", "i found the {} {}", "this {} felt {}")
FILLERS = ("", "very ", "really ", "so ", "quite ")
NEGATIONS = ("", "", "not ", "never ")
WORDS = sorted({*" ".join((*FRAMES, *FILLERS, *NEGATIONS)).replace("{}", "").split()})
VOCABULARY = {word: at + 2 for at, word in enumerate([*WORDS, *THINGS, *GOOD, *BAD])}
LENGTH, BATCH, STEPS = 24, 128, 250

MODEL = '''
"""Reviews to probabilities: around the network `score`."""

import json
import re
from pathlib import Path

import numpy as np

inputs = [("review", "BYTES", (-1,))]
outputs = [("favourable", "FP32", (-1,))]
numbers = json.loads(Path(__file__).with_name("vocabulary.json").read_text("utf-8"))


async def run(inputs, infer):
    rows = [
        [numbers.get(word, 1) for word in re.findall("[a-z]+", text.decode().lower())]
        for text in inputs["review"]
    ]
    ids = np.zeros((len(rows), max([1, *map(len, rows)])), np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
    scores = (await infer("score", {"ids": ids}))["score"]
    return {"favourable": 1 / (1 + np.exp(-scores))}
'''


class Score(nn.Layer):
    """Words (batch, length), 0 after the end, to log odds (batch,)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(VOCABULARY) + 2, 24)
        self.narrow = nn.Conv1D(24, 48, 3, padding=1)
        self.each = nn.Linear(48, 1)

    def forward(self, ids: proa.Tensor) -> proa.Tensor:
        inside = (ids > 0).astype("float32")
        x = self.words(ids).transpose([0, 2, 1])
        x = nn.functional.relu(self.narrow(x)).transpose([0, 2, 1])
        return (self.each(x).squeeze(-1) * inside).sum(-1)


def review(rng: np.random.Generator, clauses: int = 2) -> tuple[str, int]:
    """A text, and whether all of its clauses are favourable or none is."""
    favourable = int(rng.integers(2))
    parts = []
    for _ in range(clauses):
        negation = NEGATIONS[rng.integers(len(NEGATIONS))]
        words = GOOD if bool(favourable) != bool(negation) else BAD
        what = negation + FILLERS[rng.integers(len(FILLERS))] + str(rng.choice(words))
        frame = FRAMES[rng.integers(len(FRAMES))]
        parts.append(frame.format(rng.choice(THINGS), what))
    return " and ".join(parts), favourable


def _draw(rng: np.random.Generator) -> tuple[Array, ...]:
    results = [review(rng, int(rng.integers(1, 4))) for _ in range(BATCH)]
    rows = [[VOCABULARY.get(word, 1) for word in text.split()] for text, _ in results]
    labels = np.array([label for _, label in results], np.float32)
    return padded(rows, LENGTH), labels


def build(folder: Path) -> None:
    """Train, and write the repository."""
    proa.seed(0)
    net = Score()
    loss = nn.functional.binary_cross_entropy_with_logits
    fit(net, _draw, loss, steps=STEPS, rate=1e-2)
    save(net, folder, "score", {"ids": ([None, None], "int64")}, "score", max_batch=32)
    save_python(folder, "sentiment", MODEL, vocabulary=json.dumps(VOCABULARY))
