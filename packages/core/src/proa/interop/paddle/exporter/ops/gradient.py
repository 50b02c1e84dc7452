"""Rows of gradients, for models that compute some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.image import geometry_of
from proa.interop.paddle.exporter.ops.index import from_start
from proa.interop.paddle.exporter.ops.linear import product
from proa.interop.paddle.exporter.ops.reduction import mean_over
from proa.interop.paddle.exporter.ops.shape import slice_assign
from proa.interop.paddle.exporter.table import export_row

Ints = Sequence[int]


def _where(c: Call, dy: Ref, mask: Ref) -> Ref:
    return c.binary("elementwise_mul", dy, c.cast(mask, dy.dtype))


def _zeros(c: Call, like: Ref, dtype: str) -> Ref:
    ref: Ref = c.row("full_like", like, value=0.0, dtype=dtype)
    return ref


@export_row("relu_grad")
def relu_grad(c: Call, dy: Ref, y: Ref) -> Ref:
    mask = c.binary("greater_than", y, c.number(0.0, y), dtype="bool")
    return _where(c, dy, mask)


@export_row("clip_grad")
def clip_grad(c: Call, dy: Ref, x: Ref, *, min: float, max: float) -> Ref:
    above = c.binary("greater_equal", x, c.number(min, x), dtype="bool")
    below = c.binary("less_equal", x, c.number(max, x), dtype="bool")
    return _where(c, dy, c.binary("logical_and", above, below))


@export_row("linear_grad_weight")
def linear_grad_weight(c: Call, x: Ref, dy: Ref) -> Ref:
    rows, results = (c.reshape(v, [-1, c.size(v, -1)]) for v in (x, dy))
    transposed = c.transpose(rows, [1, 0])
    return product(c, transposed, results, c.outputs[0].shape)


@export_row("mean_last_grad")
def mean_last_grad(c: Call, dy: Ref, like: Ref, *, axes: int) -> Ref:
    last = list(range(like.rank - axes, like.rank))
    wide = c.unsqueeze(dy, last) if dy.rank < like.rank else dy
    return mean_over(c, wide, like, last)


@export_row("prod_grad")
def prod_grad(c: Call, *_: Ref, **attrs: Any) -> Ref:
    c.refuse("its composite divides by elements, which may be 0")


@export_row("slice_grad")
def slice_grad(c: Call, dy: Ref, like: Ref, **bounds: Ints) -> Ref:
    return slice_assign(c, _zeros(c, like, dy.dtype), dy, **bounds)


@export_row("select_grad")
def select_grad(c: Call, dy: Ref, like: Ref, *, axis: int, index: int) -> Ref:
    axis %= like.rank
    end = index + 1 if index != -1 else 2**31 - 1
    bounds = {"axes": [axis], "starts": [index], "ends": [end], "steps": [1]}
    return slice_grad(c, c.unsqueeze(dy, [axis]), like, **bounds)


@export_row("diagonal_grad")
def diagonal_grad(c: Call, dy: Ref, like: Ref, *, offset: int, axis1: int, axis2: int
                  ) -> Ref:  # fmt: skip
    assert like.shape is not None
    axis1, axis2 = axis1 % like.rank, axis2 % like.rank
    sides = [like.shape[axis1], like.shape[axis2]]
    if min(sides) < 0:
        c.refuse("diagonals of symbolic sizes")
    size = (dy.shape or (0,))[-1] + abs(offset)
    square = [size if i in (axis1, axis2) else n for i, n in enumerate(like.shape)]
    wide = c.op(
        "diag_embed", {"Input": dy}, square, offset=offset, dim1=axis1, dim2=axis2
    )
    high = [0] * like.rank
    high[axis1], high[axis2] = sides[0] - size, sides[1] - size
    found: Ref = c.row(
        "pad", wide, low=[0] * like.rank, high=high, mode="constant", value=0.0
    )
    return found


@export_row("take_along_axis_grad")
def take_along_axis_grad(c: Call, dy: Ref, index: Ref, like: Ref, *, axis: int) -> Ref:
    assert like.shape is not None and dy.shape is not None
    axis %= like.rank
    sides = [(n, m) for i, (n, m) in enumerate(zip(like.shape, dy.shape, strict=True))
             if i != axis]  # fmt: skip
    if index.shape != dy.shape or any(n != m for n, m in sides):
        c.refuse("gradients of an index that is repeated")
    index = from_start(c, index, like, axis)
    given = {"Input": _zeros(c, like, dy.dtype), "Index": index, "Value": dy}
    return c.op(
        "put_along_axis", given, like.shape, out="Result", Axis=axis, Reduce="add",
        Include_self=True,
    )  # fmt: skip


def _added_rows(c: Call, zeros: Ref, places: Ref, rows: Ref) -> Ref:
    """Rows added where their places, a list of numbers, say."""
    given = {"X": zeros, "Index": c.unsqueeze(places, [1]), "Updates": rows}
    return c.op("scatter_nd_add", given, zeros.shape)


@export_row("gather_grad")
def gather_grad(c: Call, dy: Ref, index: Ref, like: Ref, *, axis: int) -> Ref:
    axis %= like.rank
    order = [axis, *(i for i in range(like.rank) if i != axis)]
    sizes = [c.size(like, i) for i in range(like.rank)]
    flat = c.transpose(c.reshape(dy, [*sizes[:axis], -1, *sizes[axis + 1 :]]), order)
    zeros = c.transpose(_zeros(c, like, dy.dtype), order)
    index = from_start(c, index, like, axis)
    found = _added_rows(c, zeros, c.reshape(index, [-1]), flat)
    return c.transpose(found, [order.index(i) for i in range(like.rank)])


@export_row("embedding_grad")
def embedding_grad(c: Call, ids: Ref, dy: Ref, like: Ref, *, padding_idx: int) -> Ref:
    if padding_idx >= 0:
        padding = c.number(padding_idx, ids)
        mask = c.binary("not_equal", ids, padding, dtype="bool")
        dy = _where(c, dy, c.unsqueeze(mask, [ids.rank]))
    rows = c.reshape(dy, [-1, c.size(like, 1)])
    return _added_rows(c, _zeros(c, like, dy.dtype), c.reshape(ids, [-1]), rows)


def _inside(c: Call, index: Ref) -> tuple[Ref, Ref]:
    """Indices that are none of a row taken as 0; and which are of one."""
    zero = c.number(0, index)
    inside = c.binary("greater_equal", index, zero, dtype="bool")
    return c.binary("elementwise_max", index, zero), inside


@export_row("blend_rows_dot")
def blend_rows_dot(c: Call, dy: Ref, x: Ref, index: Ref) -> Ref:
    assert x.shape is not None
    first, inside = _inside(c, index)
    flat = {"X": x, "Index": c.reshape(first, [-1])}
    rows = c.op("gather", flat, [-1, *x.shape[1:]], axis=0)
    rows = c.reshape(rows, [c.size(index, 0), c.size(index, 1), c.size(x, 1)])
    dot = product(c, rows, c.unsqueeze(dy, [2]), (*(index.shape or ()), 1))
    sizes = [c.size(index, 0), c.size(index, 1)]
    return _where(c, c.reshape(dot, sizes), inside)


@export_row("blend_rows_scatter")
def blend_rows_scatter(c: Call, dy: Ref, index: Ref, weight: Ref, like: Ref) -> Ref:
    first, inside = _inside(c, index)
    weight = c.unsqueeze(_where(c, weight, inside), [2])
    products = c.binary("elementwise_mul", weight, c.unsqueeze(dy, [1]))
    rows = c.reshape(products, [-1, c.size(like, 1)])
    return _added_rows(c, _zeros(c, like, dy.dtype), c.reshape(first, [-1]), rows)


@export_row("conv2d_grad_input")
def conv2d_grad_input(
    c: Call, dy: Ref, w: Ref, like: Ref, *, stride: Ints, padding: Ints,
    dilation: Ints, groups: int,
) -> Ref:  # fmt: skip
    assert like.shape is not None and dy.shape is not None and w.shape is not None
    sides = (like.shape[2:], dy.shape[2:], w.shape[2:])
    if any(n < 0 for side in sides for n in side):
        c.refuse("gradients of images of symbolic sizes")
    # All that the windows cover is made, and the borders are cut off.
    reach = [
        (sides[1][i] - 1) * stride[i] + (sides[2][i] - 1) * dilation[i] + 1
        for i in range(2)
    ]
    wide = c.op(
        "conv2d_transpose", {"Input": dy, "Filter": w},
        [like.shape[0], like.shape[1], *reach], out="Output", output_padding=[],
        output_size=[], **geometry_of(stride, [0, 0], dilation, groups),
    )  # fmt: skip
    low = [-padding[0], -padding[2]]
    high = [sides[0][i] + padding[2 * i] - reach[i] for i in range(2)]
    attrs: dict[str, Any] = {"mode": "constant", "value": 0.0}
    found: Ref = c.row("pad", wide, low=[0, 0, *low], high=[0, 0, *high], **attrs)
    return replace(found, shape=like.shape)


@export_row("fake_quant_grad")
def fake_quant_grad(c: Call, dy: Ref, x: Ref, scale: Ref, *, axis: int) -> Ref:
    one = scale.shape in ((), (1,))
    sizes = [-1 if i == axis % x.rank and not one else 1 for i in range(x.rank)]
    wide = c.reshape(c.unary("scale", scale, scale=127.0, bias=0.0), sizes)
    mask = c.binary("less_equal", c.unary("abs", x), wide, dtype="bool")
    return _where(c, dy, mask)
