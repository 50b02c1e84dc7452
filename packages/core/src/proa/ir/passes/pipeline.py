"""The pipeline: which passes there are, in which order they run, and running them."""

from __future__ import annotations

from collections.abc import Sequence

from proa.base.collector import collector_paused
from proa.errors import NotFoundError
from proa.ir.passes.base import Pass
from proa.ir.passes.batch_norm_relu_grad import fuse_batch_norm_relu_grad
from proa.ir.passes.chains import chain_elementwise
from proa.ir.passes.common_subexpressions import eliminate_common_subexpressions
from proa.ir.passes.dead_code import remove_dead_code
from proa.ir.passes.decomposed_layers import (
    fuse_attention,
    fuse_layer_norm,
    fuse_linear_pair,
)
from proa.ir.passes.dynamic_integers import fuse_dynamic_quantized, round_linear
from proa.ir.passes.fold_constants import fold_constants
from proa.ir.passes.fold_norm import fold_batch_norm, fuse_batch_norm
from proa.ir.passes.fuse import fuse_bias, fuse_epilogue, fuse_relu
from proa.ir.passes.hoist_updates import hoist_updates
from proa.ir.passes.identity import remove_identities
from proa.ir.passes.integer_attention import fuse_integer_attention
from proa.ir.passes.integers import (
    fuse_integer_epilogue,
    fuse_integer_gate,
    fuse_integer_mean,
    move_quantize_up,
)
from proa.ir.passes.quantize_recurrent import quantize_recurrent
from proa.ir.passes.quantized import fuse_quantized
from proa.ir.passes.scaled_convolution import (
    fold_scale,
    fuse_gated_activation,
    fuse_scale,
)
from proa.ir.passes.split_norm import split_batch_norm
from proa.ir.passes.transposed_weight_grad import fuse_transposed_weight_grad
from proa.ir.passes.weight_only import fuse_weight_only
from proa.ir.program import Program

#: The passes in the order in which they run. Levels are those of `optimize`.
PIPELINE: tuple[Pass, ...] = (
    Pass(remove_identities, level=1),
    Pass(fuse_weight_only, level=2),
    Pass(fold_constants, level=1),
    Pass(fuse_layer_norm, level=2),
    Pass(fuse_attention, level=2),
    Pass(fold_batch_norm, level=3),
    Pass(fuse_batch_norm, level=2),
    Pass(fold_scale, level=3),
    Pass(fuse_scale, level=2),
    Pass(fuse_bias, level=2),
    Pass(fuse_linear_pair, level=2),
    Pass(fuse_quantized, level=2),
    Pass(fuse_dynamic_quantized, level=2),
    Pass(fuse_gated_activation, level=2),
    Pass(fuse_epilogue, level=2),
    Pass(fuse_relu, level=2),
    Pass(move_quantize_up, level=1),
    Pass(fuse_integer_epilogue, level=1),
    Pass(fuse_integer_attention, level=1),
    Pass(fuse_integer_gate, level=1),
    Pass(fuse_integer_mean, level=2),
    Pass(fuse_batch_norm_relu_grad, level=4),
    Pass(eliminate_common_subexpressions, level=1),
    Pass(fuse_transposed_weight_grad, level=4),
    Pass(remove_dead_code, level=1),
    Pass(hoist_updates, level=1),
    Pass(split_batch_norm, level=4),
    Pass(chain_elementwise, level=4),
    Pass(round_linear, level=5),
    Pass(quantize_recurrent, level=5),
)
#: The passes by name, in the same order.
PASSES: dict[str, Pass] = {p.name: p for p in PIPELINE}

_MAX_ROUNDS = 8


@collector_paused()
def apply(program: Program, names: Sequence[str]) -> bool:
    """Run the passes of these names in order, again until nothing changes."""
    unknown = [name for name in names if name not in PASSES]
    if unknown:
        raise NotFoundError(
            f"[ir.passes] names must be among {list(PASSES)}, got {unknown}"
        )
    changed_ever = False
    unchanged = 0  # passes run since the last change
    for name in [*names] * _MAX_ROUNDS:
        if PASSES[name].run(program):
            changed_ever, unchanged = True, 0
        else:
            unchanged += 1
            if unchanged == len(names):
                break
    return changed_ever


def optimize(program: Program, level: int = 2) -> bool:
    """Rewrite the program to do less.

    Args:
        program: Rewritten in place.
        level: 0 nothing; 1 what keeps every op's result bit-equal; 2 also fusions,
            which may round otherwise; 3 also what changes weights; 4 also chains, of
            which an engine must receive (`chain_spans`): a file does not keep them;
            5 also what rounds to fewer bits.

    Returns:
        Whether anything changed.
    """
    return apply(program, [p.name for p in PIPELINE if p.level <= level])
