"""Housing prices (UCI repository, Harrison and Rubinfeld, 1978)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.base.dtype import get_default_dtype
from proa.errors import InvalidArgumentError
from proa.io import Dataset
from proa.io.local_files import local_file
from proa.text.datasets.vocabulary import check_choice, reading

_COLUMNS = 14


class UCIHousing(Dataset[tuple[NDArray[Any], NDArray[Any]]]):
    """13 features of a district, scaled as (x - mean) / (max - min), and its price.

    The first 80 % of the rows are for training.

    Args:
        data_file: ``housing.data``: rows of 14 numbers separated by blanks.
        mode: "train" or "test".
        download: Kept for callers; nothing is ever downloaded.

    Raises:
        NotFoundError: If the file is not there.
        InvalidArgumentError: If it does not hold rows of 14 numbers.
    """

    def __init__(
        self, data_file: str | None = None, mode: str = "train", download: bool = True
    ) -> None:
        self.mode = check_choice(mode.lower(), ("train", "test"), "UCIHousing")
        self.data_file = local_file(
            "UCIHousing", "data_file", data_file, "uci_housing", ["housing.data"]
        )
        with reading("UCIHousing", self.data_file):
            numbers = np.array(self.data_file.read_text().split(), np.float64)
        if len(numbers) == 0 or len(numbers) % _COLUMNS:
            raise InvalidArgumentError(
                f"[UCIHousing] {self.data_file} must hold rows of {_COLUMNS} numbers, "
                f"got {len(numbers)} numbers"
            )
        rows = numbers.reshape(-1, _COLUMNS)
        features = rows[:, :-1]
        spread = features.max(0) - features.min(0)
        rows[:, :-1] = (features - features.mean(0)) / spread
        train = int(len(rows) * 0.8)
        self.data = rows[:train] if self.mode == "train" else rows[train:]
        self.dtype = str(get_default_dtype()).rpartition(".")[2]

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], NDArray[Any]]:
        row = self.data[idx].astype(self.dtype)
        return row[:-1], row[-1:]

    def __len__(self) -> int:
        return len(self.data)
