"""Shapes: reading them, and moving elements under another."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.graph.values import simplified, sizes, without_axis
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op
from proa.tensor.symbolic_dims import SymbolicDim

_LIMIT = 2**31 - 1


@paddle_op("shape", inputs="Input")
def shape(call: Call, x: Any) -> Any:
    found = sizes(list(x.shape))
    return found if isinstance(found, np.ndarray) else proa.cast(found, "int32")


@paddle_op("size", inputs="Input")
def size(call: Call, x: Any) -> Any:
    count: Any = 1
    for n in x.shape:
        count = n * count
    return simplified(count)


@paddle_op(
    "reshape", "reshape2", inputs="X Shape ShapeTensor*", host="Shape ShapeTensor"
)
def reshape(call: Call, x: Any, wanted: Any, each: list[Any]) -> Any:
    return reshaped(x, call.numbers("shape", wanted, each))


def reshaped(x: Any, given: list[Any]) -> Any:
    """x with a shape where 0 is x's own size, and one size may be -1."""
    sizes = [
        x.shape[i] if type(n) is int and n == 0 else n for i, n in enumerate(given)
    ]
    opened = [type(n) is SymbolicDim for n in sizes]
    if sum(opened) == 1 and -1 not in [n for n in sizes if type(n) is int]:
        sizes = [-1 if o else n for n, o in zip(sizes, opened, strict=True)]
    return proa.reshape(x, sizes)


@paddle_op("transpose", "transpose2")
def transpose(call: Call, x: Any) -> Any:
    return proa.transpose(x, call.get("axis"))


@paddle_op("squeeze", "squeeze2")
def squeeze(call: Call, x: Any) -> Any:
    named = call.get("axes") or []
    axes = sorted({a % x.ndim for a in named} or range(x.ndim), reverse=True)
    for axis in axes:  # one of another size stays
        if x.shape[axis] == 1 or (named and type(x.shape[axis]) is not int):
            x = without_axis(x, axis)
    return x


@paddle_op(
    "unsqueeze", "unsqueeze2", inputs="X AxesTensor AxesTensorList*",
    host="AxesTensor AxesTensorList",
)  # fmt: skip
def unsqueeze(call: Call, x: Any, axes: Any, each: list[Any]) -> Any:
    found = call.numbers("axes", axes, each)
    for axis in found:  # one after another, as PaddlePaddle counts them
        x = proa.unsqueeze(x, [int(axis)])
    return x


@paddle_op("flatten_contiguous_range")
def flatten_range(call: Call, x: Any) -> Any:
    return proa.flatten(x, call.get("start_axis", 1), call.get("stop_axis", -1))


@paddle_op("flatten", "flatten2")
def flatten(call: Call, x: Any) -> Any:
    axis = call.get("axis", 1)
    if axis == 0:
        return proa.reshape(x, [1, -1])
    head = proa.flatten(x, 0, axis - 1)
    return proa.unsqueeze(head, [1]) if axis == x.ndim else proa.flatten(head, 1, -1)


def _bounded(numbers: list[Any]) -> list[Any]:
    return [
        n if type(n) is SymbolicDim else max(-_LIMIT, min(int(n), _LIMIT))
        for n in numbers
    ]


def _dropped(call: Call, x: Any) -> Any:
    for axis in sorted(call.get("decrease_axis") or [], reverse=True):
        x = without_axis(x, axis)
    return x


@paddle_op(
    "slice",
    inputs="Input StartsTensor EndsTensor StartsTensorList* EndsTensorList*",
    host="StartsTensor EndsTensor StartsTensorList EndsTensorList",
)
def slice_axes(
    call: Call, x: Any, start: Any, end: Any, starts: list[Any], ends: list[Any]
) -> Any:
    low = _bounded(call.numbers("starts", start, starts))
    high = _bounded(call.numbers("ends", end, ends))
    axes = call.get("axes")
    if isinstance(x, list):
        return x[int(low[0]) : int(high[0])]
    return _dropped(call, proa.slice(x, axes, low, high))


@paddle_op(
    "strided_slice",
    inputs="Input StartsTensor EndsTensor StridesTensor StartsTensorList* "
    "EndsTensorList* StridesTensorList*",
    host="StartsTensor EndsTensor StridesTensor StartsTensorList EndsTensorList "
    "StridesTensorList",
)
def strided_slice(
    call: Call, x: Any, start: Any, end: Any, stride: Any, starts: list[Any],
    ends: list[Any], strides: list[Any],
) -> Any:  # fmt: skip
    low = _bounded(call.numbers("starts", start, starts))
    high = _bounded(call.numbers("ends", end, ends))
    steps = [int(n) for n in call.numbers("strides", stride, strides)]
    # backwards, -1 is the place before the first element, not the last element
    high = [
        -_LIMIT if type(n) is int and n == -1 and step < 0 else n
        for n, step in zip(high, steps, strict=True)
    ]
    return _dropped(call, proa.strided_slice(x, call.get("axes"), low, high, steps))


@paddle_op("concat", inputs="X* AxisTensor", host="AxisTensor")
def concat(call: Call, xs: list[Any], axis: Any = None) -> Any:
    return proa.concat(xs, int(call.number(axis, call.get("axis", 0))))


@paddle_op(
    "split", inputs="X AxisTensor SectionsTensorList*", outputs="Out*",
    host="AxisTensor SectionsTensorList",
)  # fmt: skip
def split(call: Call, x: Any, axis: Any, each: list[Any]) -> Any:
    at = int(call.number(axis, call.get("axis", 0)))
    sections = call.numbers("sections", None, each)
    count = call.get("num", 0) or len(call.node.outputs)
    return (proa.split(x, [*sections] or count, at),)


@paddle_op("stack", inputs="X*", outputs="Y")
def stack(call: Call, xs: list[Any]) -> Any:
    return proa.stack(xs, call.get("axis", 0))


@paddle_op("unstack", outputs="Y*")
def unstack(call: Call, x: Any) -> Any:
    return (proa.unstack(x, call.get("axis", 0), len(call.node.outputs)),)


@paddle_op("unbind", outputs="Out*")
def unbind(call: Call, x: Any) -> Any:
    return (proa.unbind(x, call.get("axis", 0)),)


@paddle_op(
    "expand_v2", inputs="X Shape expand_shapes_tensor*",
    host="Shape expand_shapes_tensor",
)  # fmt: skip
def expand(call: Call, x: Any, wanted: Any, each: list[Any]) -> Any:
    given = call.numbers("shape", wanted, each)
    have = [1] * (len(given) - x.ndim) + list(x.shape)
    final = [
        h if type(w) is int and w == -1 else w for h, w in zip(have, given, strict=True)
    ]
    return proa.expand(x, final) if final else x


@paddle_op("expand_as", "expand_as_v2", inputs="X Y target_tensor")
def expand_as(call: Call, x: Any, y: Any = None, target: Any = None) -> Any:
    like = target if y is None else y
    if like is None:
        return proa.expand(x, call.get("target_shape"))
    if call.op == "expand_as":  # repeats, whatever the size
        repeats = [
            m // n
            for n, m in zip(call.known(x.shape), call.known(like.shape), strict=True)
        ]
        return proa.tile(x, repeats)
    return proa.expand_as(x, like)


@paddle_op(
    "tile", inputs="X RepeatTimes repeat_times_tensor*",
    host="RepeatTimes repeat_times_tensor",
)  # fmt: skip
def tile(call: Call, x: Any, repeats: Any, each: list[Any]) -> Any:
    return proa.tile(x, call.numbers("repeat_times", repeats, each))


@paddle_op(
    "expand", inputs="X ExpandTimes expand_times_tensor*",
    host="ExpandTimes expand_times_tensor",
)  # fmt: skip
def expand_times(call: Call, x: Any, repeats: Any, each: list[Any]) -> Any:
    return proa.tile(x, call.numbers("expand_times", repeats, each))


@paddle_op("flip", "reverse")
def flip(call: Call, x: Any) -> Any:
    return proa.flip(x, call.get("axis"))


@paddle_op("roll", inputs="X ShiftsTensor", host="ShiftsTensor")
def roll(call: Call, x: Any, shifts: Any = None) -> Any:
    return proa.roll(x, call.numbers("shifts", shifts), call.get("axis") or None)


@paddle_op("pad")
def pad(call: Call, x: Any) -> Any:
    return F.pad(x, call.get("paddings"), value=call.get("pad_value", 0.0))


_MODES = {"edge": "replicate"}


@paddle_op("pad2d", inputs="X Paddings", host="Paddings")
def pad2d(call: Call, x: Any, given: Any = None) -> Any:
    top, bottom, left, right = call.numbers("paddings", given)
    mode = call.get("mode", "constant")
    return F.pad(
        x, [left, right, top, bottom], _MODES.get(mode, mode),
        call.get("pad_value", 0.0), call.get("data_format", "NCHW"),
    )  # fmt: skip


@paddle_op("pad3d", inputs="X Paddings", host="Paddings")
def pad3d(call: Call, x: Any, given: Any = None) -> Any:
    return F.pad(
        x, call.numbers("paddings", given), call.get("mode", "constant"),
        call.get("value", 0.0), call.get("data_format", "NCDHW"),
    )  # fmt: skip


@paddle_op("pixel_shuffle")
def pixel_shuffle(call: Call, x: Any) -> Any:
    factor = call.get("upscale_factor", 1)
    return F.pixel_shuffle(x, factor, call.get("data_format", "NCHW"))


@paddle_op("pixel_unshuffle")
def pixel_unshuffle(call: Call, x: Any) -> Any:
    factor = call.get("downscale_factor", 1)
    return F.pixel_unshuffle(x, factor, call.get("data_format", "NCHW"))


@paddle_op("space_to_depth")
def space_to_depth(call: Call, x: Any) -> Any:
    b = call.get("blocksize")
    n, c, h, w = x.shape
    six = proa.transpose(
        proa.reshape(x, [n, c, h // b, b, w // b, b]), [0, 3, 5, 1, 2, 4]
    )
    return proa.reshape(six, [n, c * b * b, h // b, w // b])


@paddle_op("shuffle_channel", "channel_shuffle")
def channel_shuffle(call: Call, x: Any) -> Any:
    groups = call.get("group") or call.get("groups", 1)
    return F.channel_shuffle(x, groups, call.get("data_format", "NCHW"))


@paddle_op("temporal_shift")
def temporal_shift(call: Call, x: Any) -> Any:
    return F.temporal_shift(
        x, call.get("seg_num"), call.get("shift_ratio", 0.25),
        data_format=call.get("data_format", "NCHW"),
    )  # fmt: skip


@paddle_op("meshgrid", inputs="X*", outputs="Out*")
def meshgrid(call: Call, xs: list[Any]) -> Any:
    return (proa.meshgrid(*xs),)


@paddle_op("tril_triu")
def tril_triu(call: Call, x: Any) -> Any:
    function = proa.tril if call.flag("lower", True) else proa.triu
    return function(x, call.get("diagonal", 0))


@paddle_op(
    "crop", "crop_tensor", inputs="X Shape Offsets ShapeTensor* OffsetsTensor* Y",
    host="Shape Offsets ShapeTensor OffsetsTensor",
)  # fmt: skip
def crop(
    call: Call, x: Any, wanted: Any, offset: Any, each: list[Any], offsets: list[Any],
    like: Any = None,
) -> Any:  # fmt: skip
    final = (
        call.known(like.shape)
        if like is not None
        else call.numbers("shape", wanted, each)
    )
    start = call.numbers("offsets", offset, offsets) or [0] * x.ndim
    final = [x.shape[i] - start[i] if n == -1 else n for i, n in enumerate(final)]
    return proa.crop(x, final, start)


@paddle_op("diagonal", inputs="Input")
def diagonal(call: Call, x: Any) -> Any:
    return proa.diagonal(
        x, call.get("offset", 0), call.get("axis1", 0), call.get("axis2", 1)
    )


@paddle_op("diag_v2")
def diag(call: Call, x: Any) -> Any:
    return proa.diag(x, call.get("offset", 0), call.get("padding_value", 0.0))


@paddle_op("diag_embed", inputs="Input")
def diag_embed(call: Call, x: Any) -> Any:
    return F.diag_embed(
        x, call.get("offset", 0), call.get("dim1", -2), call.get("dim2", -1)
    )


@paddle_op("repeat_interleave", inputs="X RepeatsTensor")
def repeat_interleave(call: Call, x: Any, repeats: Any = None) -> Any:
    count = call.get("Repeats", 0) if repeats is None else repeats
    return proa.repeat_interleave(x, count, call.get("dim", 0))
