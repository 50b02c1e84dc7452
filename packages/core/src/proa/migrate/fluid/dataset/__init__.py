"""`paddle.dataset`: data sets as readers of samples.

The data sets of `vision.datasets` and `text` find the files: nothing is downloaded.
"""

from proa.base.public import publish as _publish
from proa.migrate.fluid.dataset import (
    cifar,
    conll05,
    flowers,
    imdb,
    imikolov,
    mnist,
    movielens,
    uci_housing,
    voc2012,
    wmt14,
    wmt16,
)

__all__ = [
    "cifar", "conll05", "flowers", "imdb", "imikolov", "mnist", "movielens",
    "uci_housing", "voc2012", "wmt14", "wmt16",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
