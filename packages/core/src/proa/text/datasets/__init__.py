"""Public data sets of text and tables from local files; nothing is downloaded."""

from proa.text.datasets.conll05 import Conll05st
from proa.text.datasets.housing import UCIHousing
from proa.text.datasets.language import Imdb, Imikolov
from proa.text.datasets.movielens import Movielens
from proa.text.datasets.translation import WMT14, WMT16

__all__ = [
    "WMT14", "WMT16", "Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
