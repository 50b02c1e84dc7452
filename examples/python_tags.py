"""Python's own source, with a tag for every character, and a network that tags it."""

from __future__ import annotations

import io
import keyword
import sysconfig
import tokenize
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
LENGTH = 96
Batches = tuple[NDArray[np.int64], NDArray[np.int64]]


class Tagger(nn.Layer):
    """Characters (batch, length) to scores of tags (batch, length, tags).

    Args:
        width: Width of a direction's state; letters have half as many numbers.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letter = nn.Embedding(128, width // 2)
        self.lstm = nn.LSTM(width // 2, width, direction="bidirect")
        self.score = nn.Linear(2 * width, len(TAGS))

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
    """The modules' sources cut into chunks of one length, with their tags."""
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
