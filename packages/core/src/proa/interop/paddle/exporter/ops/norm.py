"""Rows of normalisation."""

from __future__ import annotations

from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import Ref


@export_row("batch_norm_infer")
def batch_norm_infer(c: Call, x: Ref, mean: Ref, variance: Ref, scale: Ref, bias: Ref,
                     *, epsilon: float) -> Ref:  # fmt: skip
    given = x.dtype
    x = c.cast(x, scale.dtype)
    made = c.writer.variable(c.writer.stem, x.dtype, x.shape)
    saved = [
        c.writer.variable(f"{c.writer.stem}.saved", mean.dtype, mean.shape).name
        for _ in range(2)
    ]
    inputs = {"X": x, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    c.writer.op(
        "batch_norm", {slot: [ref.name] for slot, ref in inputs.items()},
        {"Y": [made.name], "MeanOut": [mean.name], "VarianceOut": [variance.name],
         "SavedMean": [saved[0]], "SavedVariance": [saved[1]]},
        {"epsilon": float(epsilon), "momentum": 0.9, "is_test": True,
         "data_layout": "NCHW", "use_global_stats": True,
         "trainable_statistics": False},
    )  # fmt: skip
    return c.cast(made, given)


@export_row("layer_norm")
def layer_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, axes: int, epsilon: float
               ) -> Ref:  # fmt: skip
    if axes > 1:
        scale, bias = (c.reshape(v, [-1]) for v in (scale, bias))
    return c.op(
        "layer_norm", {"X": x, "Scale": scale, "Bias": bias}, x.shape, out="Y",
        more=["Mean", "Variance"], epsilon=float(epsilon),
        begin_norm_axis=x.rank - axes,
    )  # fmt: skip


@export_row("group_norm")
def group_norm(c: Call, x: Ref, scale: Ref, bias: Ref, *, groups: int, epsilon: float
               ) -> Ref:  # fmt: skip
    given = {"X": x, "Scale": scale, "Bias": bias}
    if x.rank not in (3, 4, 5):
        c.refuse(f"arrays of {x.rank} axes")
    return c.op(
        "group_norm", given, x.shape, out="Y", more=["Mean", "Variance"], groups=groups,
        epsilon=float(epsilon), data_layout="NCHW",
    )  # fmt: skip


@export_row("normalise_by")
def normalise_by(c: Call, x: Ref, center: Ref, factor: Ref, bias: Ref) -> Ref:
    centred = c.binary("elementwise_sub", x, center)
    product = c.binary("elementwise_mul", centred, factor)
    return c.binary("elementwise_add", product, bias)
