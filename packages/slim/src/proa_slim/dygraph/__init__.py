"""Compression of networks that run at once, under the names of PaddleSlim; the modules
that the names come from document them.
"""

from proa_slim.distill import Distill
from proa_slim.dygraph import dist, prune, quant
from proa_slim.prune import (
    FilterPruner,
    FPGMFilterPruner,
    GMPUnstructuredPruner,
    L1NormFilterPruner,
    L2NormFilterPruner,
    UnstructuredPruner,
)
from proa_slim.prune.pruner import Pruner
from proa_slim.quant import PTQ, QAT

__all__ = [
    "PTQ",
    "QAT",
    "Distill",
    "FPGMFilterPruner",
    "FilterPruner",
    "GMPUnstructuredPruner",
    "L1NormFilterPruner",
    "L2NormFilterPruner",
    "Pruner",
    "UnstructuredPruner",
    "dist",
    "prune",
    "quant",
]


def __dir__() -> list[str]:
    return __all__
