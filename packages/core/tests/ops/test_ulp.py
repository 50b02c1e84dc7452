"""Elementary functions of floats against float64: the bounds that simd/math.h states.

An error is counted in units in the last place of the true value. Samples are dense
over the range where a function changes, and spread over all exponents.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import proa
from proa._core import ops

Array = np.ndarray
EVERY = np.arange(0, 1 << 32, 12347, dtype=np.uint32).view(np.float32)
SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40])

#: Function, reference, densely sampled range, bound.
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float, float, float]] = {
    "exp": (np.exp, -104, 89, 1.5),
    "expm1": (np.expm1, -20, 40, 2.0),
    "log": (np.log, 0.3, 3, 1.0),
    "log1p": (np.log1p, -1, 3, 2.0),
    "tanh": (np.tanh, -11, 11, 2),
    "sigmoid": (special.expit, -90, 20, 3.0),
    "erf": (special.erf, -4.5, 4.5, 2.0),
}


def ulp_error(got: Array, want: Array) -> Array:
    """|got - want| in units of the float nearest to want; 0 for equal infinities."""
    with np.errstate(all="ignore"):
        near = want.astype(np.float32)
        unit = np.spacing(np.abs(near)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / unit
    # Beyond the greatest float the neighbours are it and infinity.
    end = np.isinf(near) | np.isinf(got)
    error = np.where(end, np.where(near == got, 0.0, 1.0), error)
    lost = end & (near != got) & (np.abs(want) < 3.4e38)
    error = np.where(lost, np.inf, error)
    return np.where(np.isnan(want) & np.isnan(got), 0.0, error)


def worst(name: str, x: Array, want: Array) -> float:
    got = getattr(ops, name)(proa.to_tensor(x)).numpy()
    return float(ulp_error(got, want).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_within_bound(name):
    reference, low, high, bound = FUNCTIONS[name]
    x = np.concatenate(
        [np.linspace(low, high, 1 << 18, dtype=np.float32), EVERY, SPECIAL]
    )
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    assert worst(name, x, want) <= bound


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_error_of_waves_within_bound(name):
    reference = getattr(np, name)
    near = np.linspace(-1.5, 1.5, 1 << 17, dtype=np.float32)
    assert worst(name, near, reference(near.astype(np.float64))) <= 2
    # Near their further zeros the error is absolute.
    wide_range = np.linspace(-8192, 8192, 1 << 18, dtype=np.float32)
    got = getattr(ops, name)(proa.to_tensor(wide_range)).numpy()
    assert np.abs(got - reference(wide_range.astype(np.float64))).max() <= 2.5e-7
    huge = np.float32([1e5, -3e8, 1e30])
    assert worst(name, huge, reference(huge.astype(np.float64))) <= 2


def test_error_of_pow_within_bound():
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-16, 16, 1 << 18)).astype(np.float32)
    y = rng.uniform(-8, 8, x.size).astype(np.float32)
    x[::4], y[::4] = -x[::4], np.rint(y[::4])
    x[1::4] = 1 + 1e-3 * y[1::4]
    y[1::4] *= 1000
    grid = np.meshgrid(np.append(SPECIAL, np.float32([2, -2, 0.5, 3, 1e38])), SPECIAL)
    x = np.append(x, grid[0].ravel())
    y = np.append(y, grid[1].ravel())
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    got = ops.pow(proa.to_tensor(x), proa.to_tensor(y)).numpy()
    assert ulp_error(got, want).max() <= 0.6


def test_error_of_gelu_within_bound():
    x = np.linspace(-16, 16, 1 << 19, dtype=np.float32)
    wide = x.astype(np.float64)
    got = ops.gelu(proa.to_tensor(x)).numpy()
    # x times a distribution function that is within 1e-7.
    assert (np.abs(got - wide * special.ndtr(wide)) <= 1.5e-7 * np.abs(wide)).all()
    tail = np.float32([-20, -1e3, -1e30])
    np.testing.assert_array_equal(ops.gelu(proa.to_tensor(tail)).numpy(), [0, 0, 0])


def test_error_of_mish_within_bound():
    # Below, exp(x) is subnormal.
    x = np.concatenate([np.linspace(-80, 25, 1 << 19), np.linspace(-3, 3, 1 << 18)])
    x = x.astype(np.float32)
    e = np.exp(x.astype(np.float64))
    gate = e * (e + 2) / (e * (e + 2) + 2)
    assert worst("mish", x, x.astype(np.float64) * gate) <= 4
    ends = np.float32([-1e30, -200, 0, 1e30, np.inf])
    got = ops.mish(proa.to_tensor(ends)).numpy()
    np.testing.assert_array_equal(got, np.float32([0, 0, 0, 1e30, np.inf]))


def _mish_slope(x: Array) -> Array:
    e = np.exp(np.minimum(x, 40))
    n = e * (e + 2)
    return n / (n + 2) + x * 4 * e * (1 + e) / (n + 2) ** 2


def _gelu_tanh_slope(x: Array) -> Array:
    c = 2 * np.sqrt(2 / np.pi)
    s = special.expit(c * (x + 0.044715 * x**3))
    rest = special.expit(-c * (x + 0.044715 * x**3))
    return s * (1 + rest * x * c * (1 + 3 * 0.044715 * x * x))


#: Attributes, and the derivative in float64; its greatest value is about 1.1.
SLOPES: dict[str, tuple[dict[str, float], Callable[[Array], Array]]] = {
    "silu_grad": (
        {"beta": 1.0},
        lambda x: special.expit(x) * (1 + x * special.expit(-x)),
    ),
    "mish_grad": ({}, _mish_slope),
    "gelu_grad": (
        {},
        lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    ),
    "gelu_tanh_grad": ({}, _gelu_tanh_slope),
    "elu_grad": (
        {"alpha": 0.7},
        lambda x: np.where(x > 0, 1, 0.7 * np.exp(np.minimum(x, 0))),
    ),
    "softplus_grad": ({"beta": 1.0, "threshold": 50.0}, special.expit),
}


@pytest.mark.parametrize("name", SLOPES)
def test_error_of_slopes_within_bound(name):
    attrs, reference = SLOPES[name]
    x = np.linspace(-30, 30, 1 << 19, dtype=np.float32)
    ones = proa.ones([x.size])
    got = getattr(ops, name)(ones, proa.to_tensor(x), **attrs).numpy()
    assert np.abs(got - reference(x.astype(np.float64))).max() <= 2.5e-7
    for wide_range in (-1e4, 1e4):
        got = getattr(ops, name)(proa.ones([1]), proa.full([1], wide_range), **attrs)
        assert got.item() == (1.0 if wide_range > 0 else 0.0)


@pytest.mark.parametrize("isa", ["scalar", "avx2", "neon"])
def test_bounds_hold_on_lower_instruction_sets(isa):
    env = {**os.environ, "PROA_ISA": isa}
    options = ("-q", "-x", "-p", "no:cacheprovider", "-k", "within_bound")
    command = [sys.executable, "-m", "pytest", *options, str(Path(__file__))]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if "[PROA_ISA]" in done.stdout + done.stderr:
        pytest.skip(f"this build or CPU has no {isa}")
    assert done.returncode == 0, done.stdout[-4000:]
