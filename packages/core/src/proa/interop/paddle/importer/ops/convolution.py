"""Convolutions."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


def padding_of(call: Call) -> Any:
    """The padding: numbers, or ``SAME`` or ``VALID``."""
    algorithm = call.get("padding_algorithm", "EXPLICIT")
    return call.get("paddings") if algorithm == "EXPLICIT" else algorithm


def layout_of(call: Call, rank: int, name: str = "data_format") -> str:
    """``NCHW``, ``NHWC``, ``NCDHW`` or ``NDHWC``."""
    last = call.get(name, "NCHW") in ("NHWC", "NDHWC", "NLC")
    axes = "DHW"[-rank:]
    return f"N{axes}C" if last else f"NC{axes}"


_CONV = {4: F.conv2d, 5: F.conv3d}
_TRANSPOSED = {4: F.conv2d_transpose, 5: F.conv3d_transpose}


@paddle_op(
    "conv2d", "depthwise_conv2d", "conv3d", inputs="Input Filter Bias",
    outputs="Output", weights="Filter Bias",
)  # fmt: skip
def conv(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    same = call.get("padding_algorithm", "EXPLICIT") == "SAME"
    dilation = [1] * rank if same else call.get("dilations", [1] * rank)
    return _CONV[x.ndim](
        x, w, bias, call.get("strides", [1] * rank), padding_of(call), dilation,
        call.get("groups", 1) or 1, layout_of(call, rank),
    )  # fmt: skip


@paddle_op(
    "conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose",
    inputs="Input Filter Bias", outputs="Output", weights="Filter Bias",
)  # fmt: skip
def conv_transpose(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    size = call.get("output_size") or None
    more: dict[str, Any] = {}
    if size is not None:
        more["output_size"] = size
    elif any(call.get("output_padding") or []):
        more["output_padding"] = call.get("output_padding")
    return _TRANSPOSED[x.ndim](
        x, w, bias, stride=call.get("strides", [1] * rank), padding=padding_of(call),
        groups=call.get("groups", 1) or 1, dilation=call.get("dilations", [1] * rank),
        data_format=layout_of(call, rank), **more,
    )  # fmt: skip


@paddle_op(
    "deformable_conv", "deformable_conv_v1", inputs="Input Offset Filter Mask",
    outputs="Output", weights="Filter",
)  # fmt: skip
def deformable_conv(call: Call, x: Any, offset: Any, w: Any, mask: Any = None) -> Any:
    return proa.vision.ops.deform_conv2d(
        x, offset, w, None, call.get("strides", [1, 1]), call.get("paddings", [0, 0]),
        call.get("dilations", [1, 1]), call.get("deformable_groups", 1),
        call.get("groups", 1), mask,
    )  # fmt: skip


@paddle_op("unfold", outputs="Y")
def unfold(call: Call, x: Any) -> Any:
    return F.unfold(
        x, call.get("kernel_sizes"), call.get("strides", 1), call.get("paddings", 0),
        call.get("dilations", 1),
    )  # fmt: skip


@paddle_op("fold", outputs="Y")
def fold(call: Call, x: Any) -> Any:
    return F.fold(
        x, call.get("output_sizes"), call.get("kernel_sizes"), call.get("strides", 1),
        call.get("paddings", 0), call.get("dilations", 1),
    )  # fmt: skip


@paddle_op("row_conv", inputs="X Filter", weights="Filter")
def row_conv(call: Call, x: Any, w: Any) -> Any:
    if x.ndim != 3:
        raise call.refuse(f"{x.ndim} axes")
    # y[t] = sum_i x[t + i] * w[i], zeros after the end
    steps, time = w.shape[0], x.shape[1]
    longer = F.pad(x, [0, steps - 1], data_format="NLC")
    parts = [
        proa.slice(longer, [1], [i], [time + i]) * proa.slice(w, [0], [i], [i + 1])
        for i in range(steps)
    ]
    return proa.add_n(parts)
