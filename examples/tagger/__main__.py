"""An LSTM colours Python source as an editor does, character by character.

It reads lines of Python's own standard library and tags every character as part of a
keyword, another name, a number, a string, a comment, an operator or as blank. The right
tags come from Python's ``tokenize``. Whether a letter belongs to a string or a comment
depends on what stands far before and after it, so a bidirectional LSTM reads both ways.

    python examples/tagger          accuracy on other files >= 0.96
"""

from __future__ import annotations

import io
import keyword
import sys
import sysconfig
import tokenize
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from learning_curve import Curve, options

import proa
from proa import nn

TAGS = ("blank", "keyword", "name", "number", "string", "comment", "operator")
KINDS = {tokenize.NAME: 2, tokenize.NUMBER: 3, tokenize.STRING: 4,
         tokenize.COMMENT: 5, tokenize.OP: 6}  # fmt: skip
TRAIN = (
    "argparse",
    "ast",
    "calendar",
    "cmd",
    "csv",
    "difflib",
    "fractions",
    "heapq",
    "inspect",
    "optparse",
    "shutil",
    "statistics",
    "tarfile",
    "turtle",
    "zipfile",
)
TEST = ("bisect", "configparser", "textwrap", "timeit")
LENGTH, WIDTH, BATCH, STEPS, EVERY = 96, 64, 48, 600, 60
Batches = tuple[NDArray[np.int64], NDArray[np.int64]]


class Tagger(nn.Layer):
    """Characters (batch, length) to scores of tags (batch, length, tags)."""

    def __init__(self) -> None:
        super().__init__()
        self.letter = nn.Embedding(128, 32)
        self.lstm = nn.LSTM(32, WIDTH, direction="bidirect")
        self.score = nn.Linear(2 * WIDTH, len(TAGS))

    def forward(self, text: proa.Tensor) -> proa.Tensor:
        return self.score(self.lstm(self.letter(text))[0])


def tagged(source: str) -> NDArray[np.int64]:
    """The tag of every character."""
    tags = np.zeros(len(source), np.int64)
    starts = np.cumsum([0, *(len(line) for line in source.splitlines(True))])
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = KINDS.get(token.type, 4 if "STRING" in tokenize.tok_name[token.type]
                         else 0)  # fmt: skip
        if kind == 2 and keyword.iskeyword(token.string):
            kind = 1
        begin = starts[token.start[0] - 1] + token.start[1]
        end = begin + len(token.string)
        tags[begin:end] = kind
    return tags


def batches(modules: tuple[str, ...]) -> Batches:
    """The modules' sources cut into pieces of one length, with their tags."""
    folder = Path(sysconfig.get_path("stdlib"))
    letters, tags = [], []
    for module in modules:
        path = folder / f"{module}.py"
        path = path if path.exists() else folder / module / "__init__.py"
        source = path.read_text(encoding="utf-8")
        letters.append(np.minimum([ord(letter) for letter in source], 127))
        tags.append(tagged(source))
    cut = []
    for column in (np.concatenate(letters), np.concatenate(tags)):
        whole = column[: len(column) // LENGTH * LENGTH]
        cut.append(whole.reshape(-1, LENGTH).astype(np.int64))
    return cut[0], cut[1]


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
