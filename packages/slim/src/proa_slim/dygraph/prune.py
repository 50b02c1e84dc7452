"""Pruning of networks under the names of PaddleSlim; `proa_slim.prune` documents it."""

from proa_slim.prune import (
    FilterPruner,
    FPGMFilterPruner,
    GMPUnstructuredPruner,
    L1NormFilterPruner,
    L2NormFilterPruner,
    UnstructuredPruner,
)
from proa_slim.prune.pruner import Pruner

__all__ = [
    "FPGMFilterPruner",
    "FilterPruner",
    "GMPUnstructuredPruner",
    "L1NormFilterPruner",
    "L2NormFilterPruner",
    "Pruner",
    "UnstructuredPruner",
]


def __dir__() -> list[str]:
    return __all__
