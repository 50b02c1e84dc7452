"""Film ratings (MovieLens 1M, Harper and Konstan, 2015)."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from proa.io import Dataset
from proa.io.local_files import local_file
from proa.text.datasets.vocabulary import check_choice, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: First years of the age groups; their position is the number of the group.
AGES = (1, 18, 25, 35, 45, 50, 56)


@dataclass(frozen=True)
class MovieInfo:
    """A film: its number, kinds and title without the year."""

    index: int
    categories: tuple[str, ...]
    title: str

    def value(
        self, categories_dict: dict[str, int], movie_title_dict: dict[str, int]
    ) -> list[list[int]]:
        """Number, numbers of the kinds, numbers of the title's words."""
        return [
            [self.index],
            [categories_dict[c] for c in self.categories],
            [movie_title_dict[w.lower()] for w in self.title.split()],
        ]


@dataclass(frozen=True)
class UserInfo:
    """Somebody who rates: number, sex, number of the age group, number of the job."""

    index: int
    is_male: bool
    age: int
    job_id: int

    def value(self) -> list[list[int]]:
        """Number, 0 for a man and 1 for a woman, age group, job."""
        return [[self.index], [0 if self.is_male else 1], [self.age], [self.job_id]]


class Movielens(Dataset[tuple[Any, ...]]):
    """Who rated which film how: eight arrays an item.

    User number, sex, age group, job; film number, kinds, words of the title; and the
    rating as 2 stars - 5, float. ``user_info`` and ``movie_info`` describe them,
    ``categories_dict`` and ``movie_title_dict`` number kinds and words (sorted).

    Args:
        data_file: ``ml-1m.zip``.
        mode: "train" or "test".
        test_ratio: Share of the ratings that is for testing.
        rand_seed: Seed of the choice.
        download: Kept for callers; nothing is ever downloaded.

    Raises:
        NotFoundError: If the archive is not there.
        InvalidArgumentError: If it is damaged.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,
    ) -> None:
        self.mode = check_choice(mode.lower(), ("train", "test"), "Movielens")
        self.test_ratio, self.rand_seed = test_ratio, rand_seed
        self.data_file = local_file(
            "Movielens", "data_file", data_file, "movielens", ["ml-1m.zip"],
            "the archive of GroupLens is free for research; put it there",
            )  # fmt: skip
        with reading("Movielens", self.data_file):
            with zipfile.ZipFile(self.data_file) as archive:
                parts = {
                    name: archive.read(f"ml-1m/{name}.dat").decode("latin-1")
                    for name in ("movies", "users", "ratings")
                }
            self._read_films(parts["movies"])
            self._read_users(parts["users"])
            self._read_ratings(parts["ratings"])

    def _read_films(self, text: str) -> None:
        self.movie_info: dict[int, MovieInfo] = {}
        for line in text.splitlines():
            number, title, kinds = line.strip().split("::")
            title = re.sub(r"\(\d+\)$", "", title)
            self.movie_info[int(number)] = MovieInfo(
                int(number), tuple(kinds.split("|")), title
            )
        films = self.movie_info.values()
        kinds_found = sorted({c for film in films for c in film.categories})
        words = sorted({w.lower() for film in films for w in film.title.split()})
        self.categories_dict = {kind: i for i, kind in enumerate(kinds_found)}
        self.movie_title_dict = {word: i for i, word in enumerate(words)}

    def _read_users(self, text: str) -> None:
        self.user_info: dict[int, UserInfo] = {}
        for line in text.splitlines():
            number, sex, age, job, _ = line.strip().split("::")
            self.user_info[int(number)] = UserInfo(
                int(number), sex == "M", AGES.index(int(age)), int(job)
            )

    def _read_ratings(self, text: str) -> None:
        rows = [line.strip().split("::")[:3] for line in text.splitlines()]
        # Drawn one by one, as Paddle does, so that its split is the same.
        draws = np.random.RandomState(self.rand_seed).random_sample(len(rows))
        wanted = (draws < self.test_ratio) == (self.mode == "test")
        self.data = [
            (int(user), int(film), float(stars) * 2 - 5.0)
            for (user, film, stars), take in zip(rows, wanted, strict=True)
            if take
        ]

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], ...]:
        user, film, rating = self.data[idx]
        described = self.movie_info[film].value(
            self.categories_dict, self.movie_title_dict
        )
        fields = [*self.user_info[user].value(), *described, [rating]]
        return tuple(np.array(field) for field in fields)

    def __len__(self) -> int:
        return len(self.data)
