"""Rows of random numbers: not those that Proa draws, but of the same distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import scaled
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Longs

Ints = Sequence[int]


def _drawn(c: Call, kind: str, shape: Ints, dtype: str, **how: Any) -> Ref:
    if -1 in shape:
        c.refuse("random numbers of a symbolic shape")
    wide = dtype if dtype == "float64" or kind == "randint" else "float32"
    result = c.op(
        kind, {}, list(shape), dtype=wide, shape=Longs(shape), dtype_=CODES[wide],
        seed=0, **how,
    )  # fmt: skip
    return c.cast(result, dtype)


@export_row("uniform")
def uniform(c: Call, *, shape: Ints, low: float, high: float, dtype: str, seed: int,
            offset: int) -> Ref:  # fmt: skip
    bounds = {"min": float(low), "max": float(high)}
    return _drawn(c, "uniform_random", shape, dtype, **bounds)


@export_row("gaussian")
def gaussian(c: Call, *, shape: Ints, mean: float, std: float, dtype: str, seed: int,
             offset: int) -> Ref:  # fmt: skip
    moments = {"mean": float(mean), "std": float(std)}
    return _drawn(c, "gaussian_random", shape, dtype, **moments)


@export_row("randint")
def randint(c: Call, *, shape: Ints, low: int, high: int, dtype: str, seed: int,
            offset: int) -> Ref:  # fmt: skip
    if dtype not in ("int32", "int64"):
        c.refuse(f"random numbers of {dtype}")
    return _drawn(c, "randint", shape, dtype, low=low, high=high)


@export_row("randperm")
def randperm(c: Call, *, count: int, dtype: str, seed: int, offset: int) -> Ref:
    result = c.op(
        "randperm", {}, [count], dtype="int64", n=count, dtype_=CODES["int64"]
    )
    return c.cast(result, dtype)


@export_row("bernoulli")
def bernoulli(c: Call, x: Ref, *, seed: int, offset: int) -> Ref:
    wide = x if x.dtype == "float64" else c.cast(x, "float32")
    return c.cast(c.unary("bernoulli", wide), x.dtype)


@export_row("dropout")
def dropout(c: Call, x: Ref, *, p: float, seed: int, offset: int, upscale: bool) -> Ref:
    """Not the operator of that name, which Paddle's predictor takes out."""
    if p == 0.0:
        return c.unary("assign", x)
    if p == 1.0:
        return scaled(c, x, 0.0)
    chances = c.op(
        "fill_any_like", {"X": x}, x.shape, dtype="float32", value=1.0 - p,
        dtype_=CODES["float32"],
    )  # fmt: skip
    mask = c.cast(c.unary("bernoulli", chances), x.dtype)
    factor = scaled(c, mask, 1.0 / (1.0 - p)) if upscale else mask
    return c.binary("elementwise_mul", x, factor)
