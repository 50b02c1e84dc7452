"""Branches, loops and functions of sequences in the style of static graphs."""

from typing import Any as _Any

from proa.base.public import publish as _publish
from proa.static.nn.control_flow import *  # noqa: F403
from proa.static.nn.control_flow import __all__ as _control
from proa.static.nn.sequence import *  # noqa: F403
from proa.static.nn.sequence import __all__ as _sequences
from proa.static.nn.sequence_layout import *  # noqa: F403
from proa.static.nn.sequence_layout import __all__ as _layout
from proa.static.python_function import py_func
from proa.static.unsupported import refuse as _refuse

__all__ = [*_control, *_sequences, *_layout, "py_func"]


def __dir__() -> list[str]:
    return __all__


_GRAPH_BUILDING = frozenset({
    "batch_norm", "bilinear_tensor_product", "conv2d",
    "conv2d_transpose", "conv3d", "conv3d_transpose", "crf_decoding",
    "create_parameter", "data_norm", "deform_conv2d", "embedding", "fc", "group_norm",
    "instance_norm", "layer_norm", "multi_box_head", "nce", "prelu",
    "row_conv", "sparse_embedding", "spectral_norm",
})  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _GRAPH_BUILDING:
        _refuse(f"nn.{name}")
    raise AttributeError(f"module 'proa.static.nn' has no attribute {name!r}")


_publish(__name__)
