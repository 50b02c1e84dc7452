"""Rows of normalisation."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import (
    expand,
    reduce,
    reshape,
    squeeze,
    unsqueeze,
)
from proa.interop.onnx.exporter.table import export_row

_WIDE = {"float16": "float32", "bfloat16": "float32"}


def _over_channels(c: Call, v: Ref, rank: int) -> Ref:
    return c.op("Reshape", v, c.ints([-1, *[1] * (rank - 2)]))


@export_row("batch_norm_infer")
def batch_norm_infer(c: Call, x: Ref, mean: Ref, variance: Ref, scale: Ref, bias: Ref,
                     *, epsilon: float) -> Ref:  # fmt: skip
    given = x.dtype
    x = c.cast(x, scale.dtype)
    y = c.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon)
    return c.cast(y, given)


def _moments(c: Call, x: Ref, axes: list[int]) -> tuple[Ref, Ref, Ref]:
    """The mean, x without it, and the mean of its squares; axes are kept."""
    mean = reduce(c, "ReduceMean", x, axes)
    centred = c.op("Sub", x, mean)
    return mean, centred, reduce(c, "ReduceMean", c.op("Mul", centred, centred), axes)


def _inverse_root(c: Call, variance: Ref, epsilon: float) -> Ref:
    more = c.op("Add", variance, c.number(epsilon, variance))
    return c.op("Reciprocal", c.op("Sqrt", more))


@export_row("batch_norm")
def batch_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, epsilon: float
               ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    given, rank = x.dtype, x.rank
    x = c.cast(x, scale.dtype)
    mean, centred, variance = _moments(c, x, [i for i in range(rank) if i != 1])
    scale, bias = _over_channels(c, scale, rank), _over_channels(c, bias, rank)
    factor = c.op("Mul", _inverse_root(c, variance, epsilon), scale)
    y = c.op("Add", c.op("Mul", centred, factor), bias)
    flat = c.ints([-1])
    found = [c.op("Reshape", v, flat) for v in (mean, variance)]
    return c.cast(y, given), found[0], found[1]


@export_row("channel_moments")
def channel_moments(c: Call, x: Ref, scale: Ref, *, epsilon: float
                    ) -> tuple[Ref, ...]:  # fmt: skip
    mean, _, variance = _moments(c, x, [i for i in range(x.rank) if i != 1])
    mean, variance = (c.op("Reshape", v, c.ints([-1])) for v in (mean, variance))
    return mean, variance, c.op("Mul", _inverse_root(c, variance, epsilon), scale)


# -- over the last axes ----------------------------------------------------------------
def _rank(c: Call) -> int:
    return len(c.outputs[0].shape)


def _statistic(c: Call, v: Ref, at: int) -> Ref:
    """A statistic without the axes over which it was computed."""
    return squeeze(c, v, list(range(len(c.outputs[at].shape), _rank(c))))


@export_row("layer_norm")
def layer_norm_by_parts(c: Call, x: Ref, scale: Ref, bias: Ref, *, axes: int,
                        epsilon: float) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    given = x.dtype
    wide = _WIDE.get(given, given)
    x, scale, bias = (c.cast(v, wide) for v in (x, scale, bias))
    last = list(range(_rank(c) - axes, _rank(c)))
    mean, centred, variance = _moments(c, x, last)
    root = c.op("Sqrt", c.op("Add", variance, c.number(epsilon, variance)))
    y = c.op("Add", c.op("Mul", c.op("Div", centred, root), scale), bias)
    return (
        c.cast(y, given),
        _statistic(c, mean, 1),
        _statistic(c, c.op("Reciprocal", root), 2),
    )


@export_row("layer_norm", since=17)
def layer_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, axes: int, epsilon: float
               ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    if x.dtype == "float64":  # the standard's statistics are of 32 bits
        return layer_norm_by_parts(c, x, scale, bias, axes=axes, epsilon=epsilon)
    scale, bias = c.cast(scale, x.dtype), c.cast(bias, x.dtype)
    y, mean, rstd = c.ops(
        "LayerNormalization", 3, x, scale, bias, axis=-axes, epsilon=epsilon,
        dtype="float32",
    )  # fmt: skip
    return y, _statistic(c, mean, 1), _statistic(c, rstd, 2)


@export_row("mean_last", "sum_last")
def over_last(c: Call, x: Ref, *, axes: int) -> Ref:
    op = "ReduceMean" if c.name == "mean_last" else "ReduceSum"
    return reduce(c, op, x, list(range(x.rank - axes, x.rank)), keepdim=False)


@export_row("expand_last")
def expand_last(c: Call, x: Ref, like: Ref, *, axes: int) -> Ref:
    wide = unsqueeze(c, x, list(range(x.rank, x.rank + axes)))
    return expand(c, wide, c.shape(like))


@export_row("mean_last_grad")
def mean_last_grad(c: Call, dy: Ref, like: Ref, *, axes: int) -> Ref:
    sizes = [c.size(like, i) for i in range(like.rank - axes, like.rank)]
    count = c.cast(c.vector([c.product(sizes)]), dy.dtype)
    return c.op("Div", expand_last(c, dy, like, axes=axes), count)


# -- groups of channels ----------------------------------------------------------------
@export_row("group_norm")
def group_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, groups: int, epsilon: float
               ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    given, rank = x.dtype, x.rank
    assert x.shape is not None
    shape, sizes = x.shape, c.shape(x)
    wide = _WIDE.get(given, given)
    x, scale, bias = (c.cast(v, wide) for v in (x, scale, bias))
    rows = reshape(c, x, [0, groups, -1])
    if groups == shape[1] and rank > 2:
        y = c.op("InstanceNormalization", x, scale, bias, epsilon=epsilon)
    else:
        plain = [c.const([v] * groups, wide) for v in (1.0, 0.0)]
        y = c.op("InstanceNormalization", rows, *plain, epsilon=epsilon)
        y = c.op("Reshape", y, sizes)
        scale, bias = _over_channels(c, scale, rank), _over_channels(c, bias, rank)
        y = c.op("Add", c.op("Mul", y, scale), bias)
    mean, _, variance = _moments(c, rows, [2])
    rstd = _inverse_root(c, variance, epsilon)
    flat = c.ints([0, 0])
    return c.cast(y, given), c.op("Reshape", mean, flat), c.op("Reshape", rstd, flat)
