"""Pooling."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.ops.convolution import layout_of, padding_of
from proa.interop.paddle.importer.table import paddle_op

_AVERAGE = {4: F.avg_pool2d, 5: F.avg_pool3d}
_MAX = {4: F.max_pool2d, 5: F.max_pool3d}
_ADAPTIVE_AVERAGE = {4: F.adaptive_avg_pool2d, 5: F.adaptive_avg_pool3d}
_ADAPTIVE_MAX = {4: F.adaptive_max_pool2d, 5: F.adaptive_max_pool3d}


@paddle_op("pool2d", "pool3d")
def pool(call: Call, x: Any) -> Any:
    rank = x.ndim - 2
    layout = layout_of(call, rank)
    kernel, is_max = call.get("ksize"), call.get("pooling_type", "max") == "max"
    adaptive = call.flag("adaptive")
    if call.flag("global_pooling") or (adaptive and set(kernel) == {1}):
        axes = list(range(2, x.ndim) if layout[1] == "C" else range(1, x.ndim - 1))
        return proa.max(x, axes, True) if is_max else proa.mean(x, axes, True)
    if adaptive and is_max:
        if layout[1] != "C":
            raise call.refuse(f"adaptive pooling of {layout}")
        return _ADAPTIVE_MAX[x.ndim](x, kernel)
    if adaptive:
        return _ADAPTIVE_AVERAGE[x.ndim](x, kernel, layout)
    stride, padding = call.get("strides", [1] * rank), padding_of(call)
    ceil = call.flag("ceil_mode")
    if is_max:
        return _MAX[x.ndim](
            x, kernel, stride, padding, ceil_mode=ceil, data_format=layout
        )
    return _AVERAGE[x.ndim](
        x, kernel, stride, padding, ceil, call.flag("exclusive", True),
        data_format=layout,
    )  # fmt: skip


@paddle_op("max_pool2d_with_index", "max_pool3d_with_index", outputs="Out Mask")
def max_pool_with_index(call: Call, x: Any) -> Any:
    kernel = call.get("ksize")
    if call.flag("global_pooling"):
        kernel = call.known(x.shape[2:])
    if call.flag("adaptive"):
        return tuple(_ADAPTIVE_MAX[x.ndim](x, kernel, True))
    found = _MAX[x.ndim](
        x, kernel, call.get("strides"), call.get("paddings", 0), return_mask=True
    )
    return tuple(found)
