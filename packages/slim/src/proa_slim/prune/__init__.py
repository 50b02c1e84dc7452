"""Pruning: channels that are removed, and weights that are set to zero."""

from proa_slim.prune.criteria import CRITERION, Channels
from proa_slim.prune.dependency import DependencyGraph, Group
from proa_slim.prune.filter_pruner import (
    FilterPruner,
    FPGMFilterPruner,
    L1NormFilterPruner,
    L2NormFilterPruner,
    prune_channels,
)
from proa_slim.prune.plan import PruningPlan
from proa_slim.prune.plot import plot_sensitivities
from proa_slim.prune.program_pruner import prune_file, prune_program
from proa_slim.prune.sensitivities import (
    get_ratios_by_loss,
    load_sensitivities,
    merge_sensitive,
)
from proa_slim.prune.sparse_file import save_sparse
from proa_slim.prune.static_pruner import ProgramPruner, Pruner
from proa_slim.prune.static_sensitivity import sensitivity
from proa_slim.prune.unstructured import (
    GMPUnstructuredPruner,
    UnstructuredPruner,
    two_of_four,
)

__all__ = [
    "CRITERION",
    "Channels",
    "DependencyGraph",
    "FPGMFilterPruner",
    "FilterPruner",
    "GMPUnstructuredPruner",
    "Group",
    "L1NormFilterPruner",
    "L2NormFilterPruner",
    "ProgramPruner",
    "Pruner",
    "PruningPlan",
    "UnstructuredPruner",
    "get_ratios_by_loss",
    "load_sensitivities",
    "merge_sensitive",
    "plot_sensitivities",
    "prune_channels",
    "prune_file",
    "prune_program",
    "save_sparse",
    "sensitivity",
    "two_of_four",
]
