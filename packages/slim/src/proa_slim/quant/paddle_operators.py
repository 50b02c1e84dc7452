"""Kinds of operator by Paddle's names, and what quantizes each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from proa.errors import InvalidArgumentError
from proa_slim.config import QuantizableOp

#: Products, whose integers are multiplied, and weights that are stored in 8 bits.
WEIGHTED: dict[str, QuantizableOp] = {
    "conv2d": "conv2d",
    "depthwise_conv2d": "conv2d",
    "conv2d_transpose": "conv2d",
    "mul": "linear",
    "fc": "linear",
    "matmul": "linear",
    "matmul_v2": "linear",
    "lookup_table": "embedding",
    "lookup_table_v2": "embedding",
    "lstm": "recurrent",
    "gru": "recurrent",
}
_POOLS = (
    "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d",
)  # fmt: skip
#: Operators whose operands are rounded, by their names in graphs of Proa.
ROUNDED: dict[str, tuple[str, ...]] = {
    "arg_max": ("argmax",),
    "batch_norm": ("batch_norm_infer",),
    "bilinear_interp": ("resize_axis",),
    "concat": ("concat",),
    "elementwise_add": ("add",),
    "elementwise_div": ("div",),
    "elementwise_max": ("maximum",),
    "elementwise_min": ("minimum",),
    "elementwise_mul": ("mul",),
    "elementwise_pow": ("pow",),
    "elementwise_sub": ("sub",),
    "equal": ("equal",),
    "flatten": ("flatten",),
    "gather": ("gather",),
    "gelu": ("gelu", "gelu_tanh"),
    "greater_equal": ("greater_equal",),
    "greater_than": ("greater_than",),
    "group_norm": ("group_norm",),
    "hard_sigmoid": ("hard_sigmoid",),
    "hard_swish": ("hard_swish",),
    "instance_norm": ("group_norm",),
    "layer_norm": ("layer_norm",),
    "leaky_relu": ("leaky_relu",),
    "less_equal": ("less_equal",),
    "less_than": ("less_than",),
    "matmul": ("matmul",),
    "matmul_v2": ("matmul",),
    "mean": ("mean",),
    "nearest_interp": ("resize_axis",),
    "not_equal": ("not_equal",),
    "pad2d": ("pad",),
    "pool2d": _POOLS,
    "reduce_mean": ("mean",),
    "relu": ("relu",),
    "relu6": ("relu6",),
    "reshape": ("reshape",),
    "sigmoid": ("sigmoid",),
    "slice": ("slice",),
    "softmax": ("softmax",),
    "split": ("slice",),
    "squeeze": ("squeeze",),
    "swish": ("silu",),
    "tanh": ("tanh",),
    "transpose": ("transpose",),
    "unsqueeze": ("unsqueeze",),
}
#: Other names of the same.
_ALIASES = {
    "argmax": "arg_max",
    "bilinear_interp_v2": "bilinear_interp",
    "flatten2": "flatten",
    "flatten_contiguous_range": "flatten",
    "nearest_interp_v2": "nearest_interp",
    "pad3d": "pad2d",
    "reshape2": "reshape",
    "squeeze2": "squeeze",
    "transpose2": "transpose",
    "unsqueeze2": "unsqueeze",
}
#: What inference leaves out.
_GONE = ("dropout",)


def op_types() -> list[str]:
    """All names."""
    return sorted({*WEIGHTED, *ROUNDED, *_ALIASES, *_GONE})


def kinds_of(
    names: Iterable[str],
) -> tuple[tuple[QuantizableOp, ...], tuple[str, ...]]:
    """``ops`` and ``operators`` of `QuantConfig` for Paddle's names.

    Raises:
        InvalidArgumentError: If a name is none of `op_types`.
    """
    ops: dict[QuantizableOp, None] = {}
    operators: dict[str, None] = {}
    for given in names:
        name = _ALIASES.get(given, given)
        if name not in WEIGHTED and name not in ROUNDED and name not in _GONE:
            raise InvalidArgumentError(
                "[PostTrainingQuantization] quantizable_op_type must be among "
                f"{', '.join(op_types())}, got {given!r}"
            )
        if name in WEIGHTED:
            ops[WEIGHTED[name]] = None
        operators.update(dict.fromkeys(ROUNDED.get(name, ())))
    ordered = tuple(op for op in get_args(QuantizableOp) if op in ops)
    return ordered, tuple(operators)
