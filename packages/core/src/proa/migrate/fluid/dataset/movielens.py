"""Ratings of films: user, gender, age, job, film, its categories and title, rating."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.migrate.fluid.dataset.readers import Reader, reader_of
from proa.text import Movielens


def _sample(*entries: Any) -> list[Any]:
    return [np.asarray(entry).reshape(-1).tolist() for entry in entries]


def train() -> Reader:
    """The reader of samples to train with."""
    return reader_of(Movielens(mode="train"), _sample)


def test() -> Reader:
    """The reader of samples to test with."""
    return reader_of(Movielens(mode="test"), _sample)
