"""Ratings of films: user, gender, age, job, film, its categories and title, rating."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.migrate.fluid.dataset.readers import Reader, reader_of
from proa.text import Movielens


def _sample(*entries: Any) -> list[Any]:
    return [np.asarray(entry).reshape(-1).tolist() for entry in entries]


#: Ages at which groups of users begin.
age_table = [1, 18, 25, 35, 45, 50, 56]


def get_movie_title_dict() -> dict[str, int]:
    """The numbers of words in titles."""
    return Movielens().movie_title_dict


def movie_categories() -> dict[str, int]:
    """The numbers of kinds of films."""
    return Movielens().categories_dict


def movie_info() -> dict[int, Any]:
    """Films by their numbers."""
    return dict(Movielens().movie_info)


def user_info() -> dict[int, Any]:
    """Users by their numbers."""
    return dict(Movielens().user_info)


def max_movie_id() -> int:
    """The greatest number of a film."""
    return max(movie_info())


def max_user_id() -> int:
    """The greatest number of a user."""
    return max(user_info())


def max_job_id() -> int:
    """The greatest number of a job."""
    return max(int(user.job_id) for user in user_info().values())


def train() -> Reader:
    """The reader of samples to train with."""
    return reader_of(Movielens(mode="train"), _sample)


def test() -> Reader:
    """The reader of samples to test with."""
    return reader_of(Movielens(mode="test"), _sample)
