"""Rewrites of programs. Importing this package fills `PASSES`, in running order."""

# isort: off
from proa.ir.passes.identity import remove_identities
from proa.ir.passes.fold_constants import fold_constants
from proa.ir.passes.fold_norm import fold_batch_norm, fuse_batch_norm
from proa.ir.passes.fuse import fuse_bias, fuse_epilogue, fuse_relu
from proa.ir.passes.batch_norm_relu_grad import fuse_batch_norm_relu_grad
from proa.ir.passes.common_subexpressions import eliminate_common_subexpressions
from proa.ir.passes.transposed_weight_grad import fuse_transposed_weight_grad
from proa.ir.passes.dead_code import remove_dead_code
from proa.ir.passes.hoist_updates import hoist_updates
from proa.ir.passes.split_norm import split_batch_norm
from proa.ir.passes.chains import chain_elementwise, chain_spans
from proa.ir.passes.base import PASSES, Pass, apply, optimize, register
# isort: on

__all__ = [
    "PASSES",
    "Pass",
    "apply",
    "chain_elementwise",
    "chain_spans",
    "fold_batch_norm",
    "fold_constants",
    "fuse_batch_norm",
    "fuse_bias",
    "fuse_epilogue",
    "fuse_relu",
    "fuse_batch_norm_relu_grad",
    "eliminate_common_subexpressions",
    "optimize",
    "register",
    "remove_dead_code",
    "remove_identities",
    "split_batch_norm",
    "fuse_transposed_weight_grad",
    "hoist_updates",
]
