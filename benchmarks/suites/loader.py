"""Epochs of a data loader: what passing batches between processes costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Case

from proa import io

SAMPLES, BATCH = 256, 32
IMAGE = np.random.default_rng(0).standard_normal((3, 96, 96), np.float32)


class Images:
    """Samples that cost nothing to make, so that the loader's own time is seen."""

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return IMAGE, index

    def __len__(self) -> int:
        return SAMPLES


def cases(torch: object | None) -> Iterator[Case]:
    """256 images of 3 x 96 x 96 in batches of 32, by this process and by a worker."""
    for workers in (0, 1):
        yield _epoch(torch, workers)


def _epoch(torch: Any, workers: int) -> Case:
    settings = {"batch_size": BATCH, "num_workers": workers}
    if workers:
        settings["persistent_workers"] = True
    ours = io.DataLoader(Images(), **settings)

    def run(loader: Any) -> int:
        count = sum(len(labels) for _, labels in loader)
        assert count == SAMPLES
        return count

    contenders = {"proa": lambda: run(ours)}
    if torch is not None:
        theirs = torch.utils.data.DataLoader(Images(), **settings)
        contenders["torch"] = lambda: run(theirs)
    name = f"loader_{workers}_workers"
    return Case(name, contenders, limit=1.0, rounds=7, slice_seconds=0.3)
