"""Rows of normalisation."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import scaled
from proa.interop.paddle.exporter.ops.reduction import added
from proa.interop.paddle.exporter.table import export_row


@export_row("batch_norm_infer")
def batch_norm_infer(c: Call, x: Ref, mean: Ref, variance: Ref, scale: Ref, bias: Ref,
                     *, epsilon: float) -> Ref:  # fmt: skip
    given = x.dtype
    x = c.cast(x, scale.dtype)
    result = c.writer.variable(c.writer.stem, x.dtype, x.shape)
    saved = [
        c.writer.variable(f"{c.writer.stem}.saved", mean.dtype, mean.shape).name
        for _ in range(2)
    ]
    inputs = {"X": x, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    c.writer.op(
        "batch_norm", {slot: [ref.name] for slot, ref in inputs.items()},
        {"Y": [result.name], "MeanOut": [mean.name], "VarianceOut": [variance.name],
         "SavedMean": [saved[0]], "SavedVariance": [saved[1]]},
        {"epsilon": float(epsilon), "momentum": 0.9, "is_test": True,
         "data_layout": "NCHW", "use_global_stats": True,
         "trainable_statistics": False},
    )  # fmt: skip
    return c.cast(result, given)


@export_row("batch_norm", "channel_moments")
def moments(c: Call, x: Ref, scale: Ref, bias: Ref | None = None, *, epsilon: float
            ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    """By the statistics of the batch. The operator would have them in its state."""
    assert x.shape is not None
    given, x = x.dtype, c.cast(x, scale.dtype)
    axes = [i for i in range(x.rank) if i != 1]
    mean = added(c, x, axes, True, "mean")
    centred = c.binary("elementwise_sub", x, mean)
    variance = added(c, c.unary("square", centred), axes, True, "mean")
    flat = [c.reshape(v, [-1]) for v in (mean, variance)]
    factor = c.binary("elementwise_mul", _inverse_root(c, flat[1], epsilon), scale)
    if bias is None:
        return flat[0], flat[1], factor
    y = c.op("elementwise_mul", {"X": centred, "Y": factor}, x.shape, axis=1)
    y = c.op("elementwise_add", {"X": y, "Y": bias}, x.shape, axis=1)
    return c.cast(y, given), flat[0], flat[1]


def _inverse_root(c: Call, variance: Ref, epsilon: float) -> Ref:
    return c.unary("rsqrt", scaled(c, variance, 1.0, epsilon))


@export_row("layer_norm")
def layer_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, axes: int, epsilon: float
               ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    if axes > 1:
        scale, bias = (c.reshape(v, [-1]) for v in (scale, bias))
    y = c.op(
        "layer_norm", {"X": x, "Scale": scale, "Bias": bias}, x.shape, out="Y",
        more=["Mean", "Variance"], epsilon=float(epsilon),
        begin_norm_axis=x.rank - axes,
    )  # fmt: skip
    return (y, *_statistics(c, x, list(range(x.rank - axes, x.rank)), epsilon))


@export_row("group_norm")
def group_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, groups: int, epsilon: float
               ) -> tuple[Ref, Ref, Ref]:  # fmt: skip
    assert x.shape is not None
    wide = x
    if x.rank not in (3, 4, 5):
        wide = c.reshape(x, [c.size(x, 0), c.size(x, 1), -1])
    y = c.op(
        "group_norm", {"X": wide, "Scale": scale, "Bias": bias}, wide.shape, out="Y",
        more=["Mean", "Variance"], groups=groups, epsilon=float(epsilon),
        data_layout="NCHW",
    )  # fmt: skip
    if wide is not x:
        y = c.reshape(y, [c.size(x, i) for i in range(x.rank)])
    rows = c.reshape(x, [c.size(x, 0), groups, -1])
    return (y, *_statistics(c, rows, [2], epsilon))


def _statistics(c: Call, x: Ref, axes: list[int], epsilon: float) -> tuple[Ref, Ref]:
    """The mean, and the inverse of the deviation: left out if nothing reads them."""
    centred = c.binary("elementwise_sub", x, added(c, x, axes, True, "mean"))
    variance = added(c, c.unary("square", centred), axes, False, "mean")
    return added(c, x, axes, False, "mean"), _inverse_root(c, variance, epsilon)


@export_row("normalise_by")
def normalise_by(c: Call, x: Ref, center: Ref, factor: Ref, bias: Ref) -> Ref:
    centred = c.binary("elementwise_sub", x, center)
    product = c.binary("elementwise_mul", centred, factor)
    return c.binary("elementwise_add", product, bias)
