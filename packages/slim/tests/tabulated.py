"""A space of 1,500 small networks, all of them trained once: tests search the table.

    python packages/slim/tests/tabulated.py [--workers 2]    # trains them again

Each network classifies Fashion-MNIST images of 14 x 14 (means of 2 x 2) and is trained
on 1,024 of them for 8 epochs; the table has its accuracy on 2,000 others after each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa_slim.search.blocks import Block
from proa_slim.search.space import Arch, ChoiceSpace

FILE = Path(__file__).parent / "tabulated.npz"
EPOCHS, BATCH, TRAIN, VALIDATION = 8, 64, 1024, 2000
OPTIONS = ((3, 1), (3, 3), (5, 1), (5, 3))  # kernel, expansion
SHAPE = [None, 1, 14, 14]


def build(arch: Arch) -> list[Block | None]:
    """Five inverted residuals, of which three may be left out."""
    plan: list[Block | None] = [Block("conv", 1, 8, stride=2)]
    for name, i, o, stride in (
        ("block1", 8, 12, 1),
        ("block2", 12, 12, 1),
        ("block3", 12, 16, 2),
        ("block4", 16, 16, 1),
        ("block5", 16, 16, 1),
    ):
        if arch[name] is None:
            plan.append(None)
        else:
            kernel, expansion = arch[name]
            plan.append(Block("inverted", i, o, kernel, stride, expansion))
    return [*plan, Block("conv", 16, 32, 1), Block("head", 32, 10)]


def space() -> ChoiceSpace:
    """3 x 5 x 4 x 5 x 5 = 1,500 architectures."""
    skip = (None, *OPTIONS)
    choices = (OPTIONS[:3], skip, OPTIONS, skip, skip)
    return ChoiceSpace({f"block{i}": c for i, c in enumerate(choices, 1)}, build)


class Table:
    """The accuracies, after each epoch, of all architectures."""

    def __init__(self) -> None:
        with np.load(FILE) as content:
            self.curves = content["correct"] / VALIDATION
        self.final = self.curves[:, -1]
        self.ranges = space().range_table()

    def index(self, tokens: list[int]) -> int:
        return int(np.ravel_multi_index(tokens, self.ranges))

    def curve(self, tokens: list[int]) -> NDArray[Any]:
        found: NDArray[Any] = self.curves[self.index(tokens)]
        return found

    def accuracy(self, tokens: list[int]) -> float:
        return float(self.final[self.index(tokens)])

    def share_better(self, accuracy: float) -> float:
        """The share of the networks with a higher accuracy."""
        return float((self.final > accuracy).mean())


def data(cache: Path) -> tuple[NDArray[Any], ...]:
    """Images and labels to train on, then those to validate with."""
    from fashion_network import _images

    images = _images(cache)

    def small(x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(len(x), 1, 14, 2, 14, 2).mean((3, 5)).astype("float32")

    last = TRAIN + VALIDATION
    x, y = small(images.train_x[:last]), images.train_y[:last]
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def correct(network: Any, x: NDArray[Any], y: NDArray[Any]) -> int:
    """How many images are classified right."""
    network.eval()
    with proa.no_grad():
        return int((network(proa.to_tensor(x)).numpy().argmax(1) == y).sum())


def trained_curve(network: Any, split: tuple[NDArray[Any], ...]) -> list[int]:
    """Train; how many validation images are classified right after each epoch."""
    x, y, validation_x, validation_y = split
    rate = proa.optimizer.lr.CosineAnnealingDecay(6e-3, EPOCHS * len(x) // BATCH)
    adam = proa.optimizer.Adam(rate, parameters=network.parameters())
    entropy, order = proa.nn.CrossEntropyLoss(), np.random.default_rng(0)
    curve = []
    for _ in range(EPOCHS):
        network.train()
        for batch in order.permutation(len(x)).reshape(-1, BATCH):
            loss = entropy(network(proa.to_tensor(x[batch])), proa.to_tensor(y[batch]))
            loss.backward()
            adam.step()
            adam.clear_grad()
            rate.step()
        curve.append(correct(network, validation_x, validation_y))
    return curve


def _rows(first: int, step: int, cache: str) -> dict[int, list[int]]:
    proa.set_num_threads(1)
    searched, split = space(), data(Path(cache))
    part = Path(cache) / f"tabulated.{first}.{step}.txt"
    rows: dict[int, list[int]] = {}
    if part.exists():  # continues after a kill
        for line in part.read_text().splitlines():
            number, *counts = map(int, line.split())
            rows[number] = counts
    with part.open("a") as file:
        for number in range(first, searched.size, step):
            if number in rows:
                continue
            tokens = np.unravel_index(number, searched.range_table())
            proa.seed(0)
            network = searched.token2arch([int(t) for t in tokens])
            rows[number] = trained_curve(network, split)
            file.write(" ".join(map(str, (number, *rows[number]))) + "\n")
            file.flush()
            if first == 0:
                print(f"\r{number}/{searched.size}", end="", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    cache = os.environ.get("PROA_DATA_HOME") or tempfile.mkdtemp()
    data(Path(cache))  # fetched once
    with get_context("spawn").Pool(workers) as pool:
        parts = pool.starmap(_rows, [(i, workers, cache) for i in range(workers)])
    rows = {number: row for part in parts for number, row in part.items()}
    counts = np.array([rows[i] for i in range(len(rows))], np.uint16)
    np.savez_compressed(FILE, correct=counts)


if __name__ == "__main__":
    main()
