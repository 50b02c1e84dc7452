"""Random numbers by Philox4x32-10 (Salmon et al., 2011).

Element i depends on (seed, offset, i) alone.
"""

from __future__ import annotations

from proa.schema.dtypes import FLOATING
from proa.schema.row import op

_KEY = "seed: int, offset: int"

op(
    f"uniform(*, shape: ints, low: float, high: float, dtype: dtype, {_KEY})",
    shape="attr",
    dtypes=FLOATING,
    out="attr",
    random=True,
    grad=None,
    lite=False,
    doc="Uniform in [low, high).",
)
op(
    f"gaussian(*, shape: ints, mean: float, std: float, dtype: dtype, {_KEY})",
    shape="attr",
    dtypes=FLOATING,
    out="attr",
    random=True,
    grad=None,
    lite=False,
    doc="Normal with the mean and standard deviation, by Box and Muller.",
)
op(
    f"randint(*, shape: ints, low: int, high: int, dtype: dtype, {_KEY})",
    shape="attr",
    dtypes=("int32", "int64"),
    out="attr",
    random=True,
    grad=None,
    lite=False,
    doc="Uniform integers in [low, high).",
)
op(
    f"randperm(*, count: int, dtype: dtype, {_KEY})",
    shape="randperm",
    dtypes=("int32", "int64", "float32", "float64"),
    out="attr",
    random=True,
    grad=None,
    lite=False,
    doc="A random order of 0 .. count - 1, by sorting random 64-bit keys.",
    scratch=True,
)
op(
    f"bernoulli(x, *, {_KEY})",
    shape="same",
    layout="follow",
    dtypes=FLOATING,
    random=True,
    grad=None,
    lite=False,
    doc="1 with probability x, else 0.",
)
op(
    f"dropout(x, *, p: float, {_KEY}, upscale: bool = True)",
    shape="same",
    layout="follow",
    dtypes=FLOATING,
    # The same key gives the same mask: dropout is linear in x.
    random=True,
    draw_rate="p",
    grad=lambda g, dy, *, p, seed, offset, upscale: g.dropout(
        dy, p=p, seed=seed, offset=offset, upscale=upscale
    ),
    lite=False,
    doc="x / (1 - p) (x if not upscale) with probability 1 - p, else 0 (Srivastava et "
    "al., 2014). Element i of the mask is counted in logical row-major order.",
)
