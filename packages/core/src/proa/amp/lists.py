"""Which ops compute in 16 bits: the rows' classes, levels, and users' lists."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable

from proa.errors import InvalidArgumentError
from proa.schema import ROWS

#: Names that PaddlePaddle gives to operators, where they differ from the rows'.
_NAMES = {
    "arg_max": "argmax", "arg_min": "argmin", "conv1d": "conv2d",
    "cross_entropy": "softmax_cross_entropy", "cross_entropy2":
    "softmax_cross_entropy", "depthwise_conv2d": "conv2d",
    "conv1d_transpose": "conv2d_transpose",
    "depthwise_conv2d_transpose": "conv2d_transpose", "elementwise_add": "add",
    "elementwise_div": "div", "elementwise_floordiv": "floor_div",
    "elementwise_max": "maximum", "elementwise_min": "minimum",
    "elementwise_mod": "mod", "elementwise_mul": "mul",
    "elementwise_pow": "pow", "elementwise_sub": "sub", "expand_v2": "broadcast_to",
    "fc": "linear", "flatten_contiguous_range": "flatten",
    "lookup_table": "embedding", "lookup_table_v2": "embedding", "matmul_v2": "matmul",
    "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min",
    "reduce_prod": "prod", "reduce_sum": "sum", "reshape2": "reshape",
    "softmax_with_cross_entropy": "softmax_cross_entropy", "squeeze2": "squeeze",
    "swish": "silu", "top_k_v2": "topk", "transpose2": "transpose",
    "unsqueeze2": "unsqueeze",
}  # fmt: skip
#: Names that mean several rows.
_GROUPS = {
    "bmm": ("matmul",), "mul": ("mul", "linear"), "matmul": ("matmul", "linear"),
    "matmul_v2": ("matmul", "linear"),
    "conv2d": ("conv2d", "conv2d_act", "conv2d_norm"),
    "batch_norm": ("batch_norm", "batch_norm_infer"),
    "pool2d": ("max_pool2d", "avg_pool2d"), "gelu": ("gelu", "gelu_tanh"),
    "sync_batch_norm": ("batch_norm", "batch_norm_infer"),
}  # fmt: skip


def rows_of(name: str) -> tuple[str, ...]:
    """The rows that an operator's name means; none if it is not known."""
    found = _GROUPS.get(name, (_NAMES.get(name, name),))
    return tuple(row for row in found if row in ROWS)


def _classes(where: str, names: Iterable[str] | None, kind: str) -> dict[str, str]:
    if names is None:
        return {}
    if isinstance(names, str) or not all(isinstance(n, str) for n in names):
        raise InvalidArgumentError(
            f"[{where}] custom_{kind}_list must be a set of operators' names, "
            f"got {names!r}"
        )
    chosen = {}
    for name in names:
        rows = rows_of(name)
        if not rows:
            warnings.warn(
                f"[{where}] custom_{kind}_list names the operator {name!r}, which does "
                "not exist here",
                stacklevel=4,
            )
        chosen.update(dict.fromkeys(rows, kind))
    return chosen


@functools.cache
def _at_o2() -> dict[str, str]:
    return {
        row.name: "white"
        for row in ROWS.values()
        if row.arithmetic
        and row.autocast == "gray"
        and "bfloat16" in row.dtypes
        and row.kind == "kernel"
    }


def classes(
    where: str,
    level: str,
    white: Iterable[str] | None,
    black: Iterable[str] | None,
) -> dict[str, str] | None:
    """The classes that differ from the rows' own; None if none do.

    Raises:
        InvalidArgumentError: If an operator is in both lists.
    """
    both = set(white or ()) & set(black or ())
    if both and not isinstance(white, str):
        raise InvalidArgumentError(
            f"[{where}] custom lists must not share operators, got {sorted(both)}"
        )
    chosen = dict(_at_o2()) if level == "O2" else {}
    chosen.update(_classes(where, white, "white"))
    chosen.update(_classes(where, black, "black"))
    return chosen or None
