"""Operators of the standard whose form differs between opsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call

_END = 2**63 - 1
#: The opset from which a reduction takes its axes as an array.
_AXES_GIVEN = {"ReduceSum": 13}


def squeeze(c: Call, x: Ref, axes: Sequence[int]) -> Ref:
    """x without the axes."""
    if not axes:
        return x
    if c.opset < 13:
        return c.op("Squeeze", x, axes=list(axes))
    return c.op("Squeeze", x, c.ints(axes))


def unsqueeze(c: Call, x: Ref, axes: Sequence[int]) -> Ref:
    """x with axes of size 1 at these places of the result."""
    if not axes:
        return x
    if c.opset < 13:
        return c.op("Unsqueeze", x, axes=list(axes))
    return c.op("Unsqueeze", x, c.ints(axes))


def reduce(
    c: Call, op: str, x: Ref, axes: Sequence[int] | None = None, keepdim: bool = True
) -> Ref:
    """A reduction over the axes, or over all."""
    if axes is not None and not axes:
        return x
    keep = int(keepdim)
    if axes is None or c.opset < _AXES_GIVEN.get(op, 18):
        return c.op(op, x, axes=None if axes is None else list(axes), keepdims=keep)
    return c.op(op, x, c.ints(axes), keepdims=keep)


def slice_(
    c: Call,
    x: Ref,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Ref:
    """x[start:end:step] along the axes."""
    steps = [1] * len(axes) if steps is None else steps
    if c.opset >= 10:
        lists = [c.ints(v) for v in (starts, ends, axes)]
        more = [c.ints(steps)] if any(s != 1 for s in steps) else []
        return c.op("Slice", x, *lists, *more)
    if all(s == 1 for s in steps):
        return c.op(
            "Slice", x, axes=list(axes), starts=list(starts), ends=list(ends)
        )  # fmt: skip
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = c.size(x, axis)
        if not isinstance(size, int):
            c.refuse("steps along a symbolic dimension need opset 10")
        places = range(size)[_python_slice(start, end, step)]
        shape = list(x.shape or ())
        shape[axis] = len(places)
        found = gather(c, x, c.ints(list(places)), axis)
        x = Ref(found.name, x.dtype, tuple(shape))
    return x


def _python_slice(start: int, end: int, step: int) -> slice:
    return slice(start, None if end == (_END if step > 0 else -_END - 1) else end, step)


def gather(c: Call, x: Ref, index: Ref, axis: int) -> Ref:
    """x[..., index, ...]; constant indices may be negative."""
    if index.data is not None and (index.data < 0).any():
        size = c.size(x, axis)
        if isinstance(size, int):
            fixed = np.where(index.data < 0, index.data + size, index.data)
            index = c.const(fixed, index.dtype)
    return c.op("Gather", x, index, axis=axis)


def reshape(
    c: Call, x: Ref, sizes: Sequence[int | Ref], shape: Sequence[int] | None = None
) -> Ref:
    """x under another shape: 0 keeps a size, one may be -1.

    Args:
        shape: What is known of the result, if the sizes do not say all.
    """
    result = c.op("Reshape", x, c.vector(sizes))
    known = (
        shape if shape is not None else [s if isinstance(s, int) else -1 for s in sizes]
    )
    if shape is None and x.shape is not None:
        known = [
            x.shape[i] if n == 0 and i < x.rank else n for i, n in enumerate(known)
        ]
    return Ref(result.name, x.dtype, tuple(known))


def expand(c: Call, x: Ref, sizes: Sequence[int | Ref] | Ref) -> Ref:
    """x repeated to sizes, of which 1 keeps that of x."""
    return c.op("Expand", x, sizes if isinstance(sizes, Ref) else c.vector(sizes))


def transpose(c: Call, x: Ref, perm: Sequence[int]) -> Ref:
    """x with axes in another order; of a constant another constant."""
    perm = [p % len(perm) for p in perm]
    if perm == list(range(len(perm))):
        return x
    if x.data is not None and x.dtype != "bfloat16":
        return c.const(np.ascontiguousarray(x.data.transpose(perm)), x.dtype)
    result = c.op("Transpose", x, perm=perm)
    shape = None if x.shape is None else tuple(x.shape[p] for p in perm)
    return Ref(result.name, x.dtype, shape)


def concat(c: Call, parts: Sequence[Ref], axis: int) -> Ref:
    """Arrays joined along an axis."""
    return parts[0] if len(parts) == 1 else c.op("Concat", *parts, axis=axis)


def full(c: Call, sizes: Ref, value: float, dtype: str) -> Ref:
    """An array of one number."""
    import onnx

    number = c.graph.number(value, dtype)
    assert number.data is not None
    if dtype in ("bfloat16", "int16"):  # not among those of early opsets
        return c.op("Expand", number, sizes)
    tensor = onnx.numpy_helper.from_array(number.data.reshape(1))
    return c.op("ConstantOfShape", sizes, value=tensor, dtype=dtype)


def pad(c: Call, x: Ref, low: Sequence[int], high: Sequence[int], value: float = 0.0,
        mode: str = "constant") -> Ref:  # fmt: skip
    """x with elements put around it (negative: cropped)."""
    pads = [*low, *high]
    if c.opset < 11:
        return c.op("Pad", x, pads=pads, mode=mode, value=float(value))
    number = c.number(value, x) if mode == "constant" else None
    if number is not None and x.dtype == "bool":
        return c.cast(pad(c, c.cast(x, "int32"), low, high, value), "bool")
    return c.op("Pad", x, c.ints(pads), number, mode=mode)


def scatter_added(c: Call, op: str, x: Ref, index: Ref, v: Ref, **attrs: Any) -> Ref:
    """x with elements of v added at the index, those of 16 bits in float32."""
    wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    x, v, given = c.cast(x, wide), c.cast(v, wide), x.dtype
    return c.cast(c.op(op, x, index, v, reduction="add", **attrs), given)


def where(c: Call, condition: Ref, x: Ref, y: Ref) -> Ref:
    """x where the condition holds, else y."""
    return c.op("Where", condition, x, y)


def topk(c: Call, x: Ref, k: int | Ref, axis: int, largest: bool) -> list[Ref]:
    """The k greatest or least elements in order, and where they were."""
    if c.opset < 11 and x.dtype not in ("float16", "float32", "float64"):
        wide = c.cast(x, "float64")
        values, index = topk(c, wide, k, axis, largest)
        return [c.cast(values, x.dtype), index]
    if c.opset < 11 and not largest:
        values, index = topk(c, c.op("Neg", x), k, axis, True)
        return [c.op("Neg", values), index]
    if c.opset < 10:
        if not isinstance(k, int):
            c.refuse("sorting along a symbolic dimension needs opset 10")
        return c.ops("TopK", 2, x, k=k, axis=axis)
    count = c.ints([k]) if isinstance(k, int) else k
    if c.opset < 11:
        return c.ops("TopK", 2, x, count, axis=axis)
    return c.ops("TopK", 2, x, count, axis=axis, largest=int(largest), sorted=1)


def softmax(c: Call, op: str, x: Ref, axis: int) -> Ref:
    """Softmax or LogSoftmax along one axis."""
    axis %= max(x.rank, 1)
    if x.rank == 0:
        x = c.op("Reshape", x, c.ints([1]))
        return c.op("Reshape", c.op(op, x, axis=0), c.ints([]))
    if c.opset >= 13 or axis == x.rank - 1:
        return c.op(op, x, axis=axis)
    # Before opset 13 all axes from `axis` on were taken together.
    perm = [i for i in range(x.rank) if i != axis] + [axis]
    last = c.op(op, transpose(c, x, perm), axis=x.rank - 1)
    back = [perm.index(i) for i in range(x.rank)]
    return c.op("Transpose", last, perm=back)
