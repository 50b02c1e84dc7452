"""Text: data sets from local files, and decoding of tag sequences."""

from proa.base.public import publish as _publish
from proa.text import datasets
from proa.text.datasets import (
    WMT14,
    WMT16,
    Conll05st,
    Imdb,
    Imikolov,
    Movielens,
    UCIHousing,
)
from proa.text.viterbi import ViterbiDecoder, viterbi_decode

__all__ = [
    "WMT14", "WMT16", "Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing",
    "ViterbiDecoder", "datasets", "viterbi_decode",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
