"""Running extrema, logarithms of sums, and quantiles, against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (2, 8, 3), (0, 2), (2, 0)])
def test_logcumsumexp(axis: int | None, shape: tuple[int, ...]):
    a = RNG.normal(size=shape) * 3
    x = proa.to_tensor(a, stop_gradient=False)
    y = proa.logcumsumexp(x, axis)
    want = np.logaddexp.accumulate(a.ravel() if axis is None else a, axis or 0)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-12)
    if a.size:
        y.sum().backward()
        h, step = 1e-6, RNG.normal(size=shape)
        up, down = (
            float(proa.logcumsumexp(proa.to_tensor(a + s * h * step), axis).sum())
            for s in (1, -1)
        )
        slope = (x.grad.numpy() * step).sum()
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


def test_logarithms_of_sums_at_infinity():
    inf = np.inf
    a = np.array([-inf, -inf, 0.0, inf, 1.0])
    got = proa.logcumsumexp(proa.to_tensor(a))
    np.testing.assert_array_equal(got.numpy(), np.logaddexp.accumulate(a))
    x, y = np.array([1000.0, -inf, 3.0]), np.array([1000.0, -inf, inf])
    got = proa.logaddexp(proa.to_tensor(x), proa.to_tensor(y))
    np.testing.assert_allclose(got.numpy(), np.logaddexp(x, y))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_running_extrema(name: str, axis: int | None, dtype: str):
    a = RNG.integers(0, 6, (4, 9)).astype(dtype)
    values, index = getattr(proa, name)(proa.to_tensor(a), axis)
    lines = a.ravel() if axis is None else a
    ufunc = np.maximum if name == "cummax" else np.minimum
    np.testing.assert_array_equal(values.numpy(), ufunc.accumulate(lines, axis or 0))
    picked = np.take_along_axis(lines, index.numpy(), axis or 0)
    np.testing.assert_array_equal(picked, values.numpy())
    assert index.dtype == "int64"


def test_running_extrema_keep_nan_and_send_gradients():
    x = proa.to_tensor([1.0, float("nan"), 2.0, 0.0], stop_gradient=False)
    np.testing.assert_array_equal(
        proa.cummax(x)[0].numpy(), [1, np.nan, np.nan, np.nan]
    )
    y = proa.to_tensor([1.0, 3.0, 2.0], stop_gradient=False)
    proa.cummax(y)[0].sum().backward()
    assert y.grad.tolist() == [1, 2, 0]
    with pytest.raises(InvalidArgumentError, match="int32 or int64"):
        proa.cummin(y, dtype="float32")


@pytest.mark.parametrize("q", [0, 0.3, 1, [0.1, 0.5], 0.25])
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_quantiles(q: Any, axis: Any, keepdim: bool):
    a = RNG.normal(size=(3, 4, 5))
    along = tuple(axis) if isinstance(axis, list) else axis
    got = proa.quantile(proa.to_tensor(a), q, axis, keepdim)
    want = np.quantile(a, q, along, keepdims=keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    a[0, 1, 2] = a[1, :, 3] = np.nan
    got = proa.nanquantile(proa.to_tensor(a), q, axis, keepdim)
    want = np.nanquantile(a, q, along, keepdims=keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    want = np.quantile(a, q, along, keepdims=keepdim)
    got = proa.quantile(proa.to_tensor(a), q, axis, keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_medians():
    a = RNG.normal(size=(4, 6))
    a[0, 0] = np.nan
    np.testing.assert_allclose(proa.nanmedian(proa.to_tensor(a), 1), np.nanmedian(a, 1))
    with pytest.raises(InvalidArgumentError, match=r"q must be in \[0, 1\]"):
        proa.quantile(proa.to_tensor(a), 1.5)
    x = proa.to_tensor([1.0, 4.0, 2.0], stop_gradient=False)
    proa.quantile(x, 0.25).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]


def test_running_products_differentiate_through_zeros():
    x = proa.to_tensor([2.0, 0.0, 3.0, 0.0], stop_gradient=False)
    proa.cumprod(x, 0).sum().backward()
    assert x.grad.tolist() == [1, 2 + 6, 0, 0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_running_products_do_not_depend_on_a_gradient(dtype: str):
    x = proa.to_tensor(RNG.uniform(0.9, 1.1, (3, 200))).astype(dtype)
    plain = proa.cumprod(x, 1)
    x.stop_gradient = False
    np.testing.assert_array_equal(proa.cumprod(x, 1).numpy(), plain.numpy())


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradients_of_running_products_equal_finite_differences(zeros: int):
    a, w = RNG.normal(size=(2, 6)), RNG.normal(size=(2, 6))
    a[:, [1, 4][:zeros]] = 0
    x = proa.to_tensor(a, stop_gradient=False)
    (y,) = proa.grad(
        (proa.cumprod(x, 1) * proa.to_tensor(w)).sum(), x, create_graph=True
    )
    (y * y).sum().backward()
    step, h = RNG.normal(size=a.shape), 1e-5

    def slope(f: Any) -> float:
        return float((f(a + h * step) - f(a - h * step)) / (2 * h))

    def gradient_of(b: Any) -> Any:
        t = proa.to_tensor(b, stop_gradient=False)
        (proa.cumprod(t, 1) * proa.to_tensor(w)).sum().backward()
        return t.grad.numpy()

    first = slope(lambda b: (np.cumprod(b, 1) * w).sum())
    np.testing.assert_allclose((y.numpy() * step).sum(), first, rtol=1e-6, atol=1e-8)
    second = slope(lambda b: (gradient_of(b) ** 2).sum())
    np.testing.assert_allclose((x.grad.numpy() * step).sum(), second, rtol=1e-5)
