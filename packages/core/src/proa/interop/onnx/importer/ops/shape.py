"""Shapes: reading them, and moving elements under another."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa._core import ops
from proa.errors import UnimplementedError
from proa.interop.graph.values import constant, sizes, without_axis
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import dtype_of
from proa.interop.onnx.importer.ops.index import wrapped
from proa.interop.onnx.importer.table import onnx_op
from proa.tensor.symbolic_dims import SymbolicDim, has_symbolic_dims


def shape_of(x: Any) -> list[Any]:
    """The sizes of a tensor or an array of text."""
    return list(x.shape)


@onnx_op("Shape")
def shape(call: Call, x: Any) -> Any:
    found = shape_of(x)
    return sizes(found[call.get("start", 0) : call.get("end", len(found))])


@onnx_op("Size")
def size(call: Call, x: Any) -> Any:
    count: Any = 1
    for n in shape_of(x):
        count = n * count
    if isinstance(count, SymbolicDim):
        found = np.empty([], object)
        found[()] = count
        return found
    return proa.to_tensor(np.array(count, np.int64))


@onnx_op("Constant")
def constant_attributes(call: Call) -> Any:
    for name, kind in {
        "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
        "value_ints": np.int64, "value_string": np.str_, "value_strings": np.str_,
        "value": None, "sparse_value": None,
    }.items():  # fmt: skip
        value = call.get(name)
        if value is not None:
            return constant(np.asarray(value, kind))
    raise call.refuse("no value")


@onnx_op("ConstantOfShape", host=(0,))
def constant_of_shape(call: Call, size: Any) -> Any:
    value = call.get("value")
    one = constant(np.zeros(1, np.float32) if value is None else np.reshape(value, -1))
    wanted = call.ints(size) or []
    return proa.full(wanted, one.numpy().item(), one.dtype)


@onnx_op("Reshape")
def reshape_attribute(call: Call, x: Any) -> Any:
    return proa.reshape(x, call.get("shape"))


@onnx_op("Reshape", since=5, host=(1,))
def reshape(call: Call, x: Any, wanted: Any) -> Any:
    given = call.ints(wanted) or []
    if call.get("allowzero", 0) and 0 in given:
        count = int(np.prod([n for n in given if n != -1]))
        return proa.zeros([n if n != -1 else count for n in given], x.dtype)
    sizes = [
        x.shape[i] if type(n) is int and n == 0 else n for i, n in enumerate(given)
    ]
    opened = [type(n) is SymbolicDim for n in sizes]
    if sum(opened) == 1 and -1 not in [n for n in sizes if type(n) is int]:
        sizes = [-1 if o else n for n, o in zip(sizes, opened, strict=True)]
    if isinstance(x, np.ndarray):
        return x.reshape(sizes)
    return proa.reshape(x, sizes)


@onnx_op("Flatten")
def flatten(call: Call, x: Any) -> Any:
    axis = call.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 0:
        return proa.reshape(x, [1, -1])
    head = proa.flatten(x, 0, axis - 1)
    if axis == x.ndim:
        return proa.unsqueeze(head, [1])
    return proa.flatten(head, 1, -1)


@onnx_op("Squeeze", host=(1,))
def squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    found = call.ints(axes, "axes")
    if found is None:
        found = [i for i, n in enumerate(x.shape) if type(n) is int and n == 1]
    for axis in sorted((a % x.ndim for a in found), reverse=True):
        x = without_axis(x, axis)
    return x


@onnx_op("Unsqueeze", host=(1,))
def unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    found = call.ints(axes, "axes") or []
    rank = x.ndim + len(found)
    return proa.unsqueeze(x, sorted(a % rank for a in found)) if found else x


@onnx_op("Transpose")
def transpose(call: Call, x: Any) -> Any:
    return proa.transpose(x, call.get("perm", list(range(x.ndim))[::-1]))


@onnx_op("Concat")
def concat(call: Call, *xs: Any) -> Any:
    return proa.concat(list(xs), call.get("axis", 1))


@onnx_op("Split")
def split_attribute(call: Call, x: Any, parts: Any = None) -> Any:
    return _split(call, x, call.get("split"))


@onnx_op("Split", since=13, host=(1,))
def split(call: Call, x: Any, parts: Any = None) -> Any:
    return _split(call, x, call.ints(parts, "split"))


def _split(call: Call, x: Any, parts: list[Any] | None) -> Any:
    axis = call.get("axis", 0)
    if parts is None:
        count = call.get("num_outputs", len(call.node.outputs))
        n = x.shape[axis]
        each = -(-n // count)
        parts = [each] * (count - 1) + [n - each * (count - 1)]
    found, start = [], 0
    for n in parts:
        found.append(proa.slice(x, [axis], [start], [start + n]))
        start = start + n
    return tuple(found)


@onnx_op("Slice")
def slice_attributes(call: Call, x: Any) -> Any:
    return _slice(x, call.get("starts"), call.get("ends"), call.get("axes"), None)


@onnx_op("Slice", since=10, host=(1, 2, 3, 4))
def slice_inputs(
    call: Call, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> Any:
    return _slice(x, *(call.ints(v) for v in (starts, ends, axes, steps)))


_LIMIT = 2**31 - 1


def _slice(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    bounded: list[Any] = [
        [n if type(n) is SymbolicDim else max(-_LIMIT, min(n, _LIMIT)) for n in numbers]
        for numbers in (starts, ends)
    ]
    fixed = []
    for i, bounds in enumerate(zip(axes, *bounded, steps, strict=True)):
        axis, start, end, step = bounds
        if not has_symbolic_dims([start, end]):
            fixed.append(i)
            continue
        at = [slice(None)] * x.ndim
        first = None if start == -_LIMIT else start
        at[axis] = slice(first, None if end == _LIMIT else end, step)
        x = x[tuple(at)]
    if len(fixed) < len(axes):
        axes, steps, *bounded = (
            [numbers[i] for i in fixed] for numbers in (axes, steps, *bounded)
        )
    return proa.strided_slice(x, axes, bounded[0], bounded[1], steps) if axes else x


@onnx_op("Expand", host=(1,))
def expand(call: Call, x: Any, wanted: Any) -> Any:
    given = call.ints(wanted) or []
    rank = max(len(given), x.ndim)
    have = [1] * (rank - x.ndim) + list(x.shape)
    want = [1] * (rank - len(given)) + given
    final = [
        h if type(w) is int and w == 1 else w for h, w in zip(have, want, strict=True)
    ]
    return proa.expand(x, final) if final else x


@onnx_op("Tile", since=6, host=(1,))
def tile(call: Call, x: Any, repeats: Any) -> Any:
    return proa.tile(x, call.ints(repeats) or [])


@onnx_op("Trilu", host=(1,))
def trilu(call: Call, x: Any, k: Any = None) -> Any:
    if 0 in x.shape:
        return x
    function = proa.triu if call.get("upper", 1) else proa.tril
    if x.dtype.name == "bool":
        return function(x.astype("uint8"), call.number(k, 0)).astype("bool")
    return function(x, call.number(k, 0))


@onnx_op("EyeLike")
def eye_like(call: Call, x: Any) -> Any:
    dtype = dtype_of(call, call.get("dtype")) if call.get("dtype") else x.dtype
    rows, columns = call.known(x.shape)
    found = proa.zeros([rows, columns], "float32")
    shift = call.get("k", 0)
    if -rows < shift < columns:
        full = proa.ones([rows, columns], "float32")
        found = proa.tril(full, shift) - proa.tril(full, shift - 1)
    return found.astype(dtype)


@onnx_op("Range", host=(0, 1, 2))
def range_of(call: Call, start: Any, limit: Any, step: Any) -> Any:
    values = [call.host(v).reshape(-1)[0] for v in (start, limit, step)]
    if any(type(v) is SymbolicDim for v in values):
        return proa.arange(values[0], values[1], values[2], "int64")
    found = constant(np.arange(*values, dtype=np.asarray(values[0]).dtype))
    return found.astype(start.dtype) if hasattr(start, "dtype") else found


@onnx_op("Pad")
def pad_attributes(call: Call, x: Any) -> Any:
    pads = call.get("pads", call.get("paddings"))
    return _pad(call, x, pads, call.get("value", 0.0), None)


@onnx_op("Pad", since=11, host=(1, 2, 3))
def pad(call: Call, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    return _pad(call, x, call.ints(pads), call.number(value, 0.0), call.ints(axes))


def _pad(call: Call, x: Any, pads: Any, value: Any, axes: Any) -> Any:
    axes = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    return padded(x, low, high, call.get("mode", "constant"), value)


def padded(x: Any, low: list[int], high: list[int], mode: str, value: Any) -> Any:
    """x with elements added at both ends of each axis, or cropped if negative."""
    for axis in range(x.ndim):
        if has_symbolic_dims([low[axis], high[axis]]):
            if mode != "constant":
                raise UnimplementedError(
                    f"[onnx] Pad: expected known sizes for mode={mode!r}, got a "
                    "symbolic dimension"
                )
            x = _joined(x, axis, low[axis], high[axis], value)
            low[axis] = high[axis] = 0
    cut = [i for i in range(x.ndim) if low[i] < 0 or high[i] < 0]
    if cut:
        starts = [max(-low[i], 0) for i in cut]
        ends = [min(high[i], 0) or _LIMIT for i in cut]
        x = proa.slice(x, cut, starts, ends)
        low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if not any(low) and not any(high):
        return x
    return ops.pad(x, low=low, high=high, mode=_PADDING[mode], value=value)


def _joined(x: Any, axis: int, low: Any, high: Any, value: Any) -> Any:
    """x between so many constants along an axis, some of a symbolic number."""

    def constants(size: Any) -> Any:
        shape = list(x.shape)
        shape[axis] = size
        return proa.full(shape, value, x.dtype)

    known = [type(n) is int and n == 0 for n in (low, high)]
    parts = [] if known[0] else [constants(low)]
    parts += [x] if known[1] else [x, constants(high)]
    return proa.concat(parts, axis)


_PADDING: dict[str, Any] = {
    "constant": "constant", "reflect": "reflect", "edge": "replicate",
    "wrap": "circular",
}  # fmt: skip


@onnx_op("DepthToSpace")
def depth_to_space(call: Call, x: Any) -> Any:
    b = call.get("blocksize")
    n, c, h, w = x.shape
    if call.get("mode", "DCR") == "DCR":
        six = proa.reshape(x, [n, b, b, c // (b * b), h, w])
        six = proa.transpose(six, [0, 3, 4, 1, 5, 2])
    else:
        six = proa.reshape(x, [n, c // (b * b), b, b, h, w])
        six = proa.transpose(six, [0, 1, 4, 2, 5, 3])
    return proa.reshape(six, [n, c // (b * b), h * b, w * b])


@onnx_op("SpaceToDepth")
def space_to_depth(call: Call, x: Any) -> Any:
    b = call.get("blocksize")
    n, c, h, w = x.shape
    six = proa.reshape(x, [n, c, h // b, b, w // b, b])
    is_depth_first = call.get("mode", "DCR") == "DCR"
    six = proa.transpose(
        six, [0, 3, 5, 1, 2, 4] if is_depth_first else [0, 1, 3, 5, 2, 4]
    )
    return proa.reshape(six, [n, c * b * b, h // b, w // b])


@onnx_op("OneHot", host=(1,))
def one_hot(call: Call, index: Any, depth: Any, values: Any) -> Any:
    count = int(call.number(depth))
    index = wrapped(index.astype("int64"), count)
    hot = proa.equal(proa.unsqueeze(index, [index.ndim]), proa.arange(count))
    axis = call.get("axis", -1) % hot.ndim
    perm = list(range(hot.ndim - 1))
    perm.insert(axis, hot.ndim - 1)
    off, on = proa.slice(values, [0], [0], [1]), proa.slice(values, [0], [1], [2])
    return proa.where(proa.transpose(hot, perm), on, off)


@onnx_op("ReverseSequence")
def reverse_sequence(call: Call, x: Any, lengths: Any) -> Any:
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    steps = proa.to_tensor(np.arange(call.known(x.shape)[time]))
    shape = [1] * x.ndim
    along = list(shape)
    along[time], shape[batch] = -1, -1
    steps, ends = proa.reshape(steps, along), proa.reshape(lengths, shape)
    index = proa.where(proa.less_than(steps, ends), ends - 1 - steps, steps)
    return proa.take_along_axis(x, proa.expand(index, x.shape), time)
