"""Functions of sequences for programs in the style of static graphs."""

from __future__ import annotations

from typing import Any

from proa.static.absent import refuse
from proa.static.nn.sequence import *  # noqa: F403
from proa.static.nn.sequence import __all__ as _sequences
from proa.static.nn.sequence_layout import *  # noqa: F403
from proa.static.nn.sequence_layout import __all__ as _layout

__all__ = [*_sequences, *_layout]

_GRAPH_BUILDING = frozenset({
    "batch_norm", "bilinear_tensor_product", "case", "cond", "conv2d",
    "conv2d_transpose", "conv3d", "conv3d_transpose", "crf_decoding",
    "create_parameter", "data_norm", "deform_conv2d", "embedding", "fc", "group_norm",
    "instance_norm", "layer_norm", "multi_box_head", "nce", "prelu", "py_func",
    "row_conv", "sparse_embedding", "spectral_norm", "switch_case", "while_loop",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _GRAPH_BUILDING:
        refuse(f"nn.{name}")
    raise AttributeError(f"module 'proa.static.nn' has no attribute {name!r}")
