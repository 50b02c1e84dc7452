"""grid_sample, affine_grid and temporal_shift against NumPy, point by point."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from .reference import channels_last, numbers, slopes_agree


def reflect(p: float, n: int, corners: bool) -> float:
    """Reflected until it is inside."""
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    if low == high:
        return 0.0
    while not low <= p <= high:
        p = 2 * low - p if p < low else 2 * high - p
    return p


def sampled(x: Any, grid: Any, mode: str, outside: str, corners: bool) -> Any:
    axes = x.ndim - 2
    size = x.shape[2:]
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        p = []
        for n, g in zip(size, grid[at][::-1], strict=True):
            c = (g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2
            if outside == "reflection":
                c = reflect(c, n, corners)
            p.append(c if outside == "zeros" else min(max(c, 0), n - 1))
        for corner in itertools.product((0, 1), repeat=axes):
            place = [int(np.floor(c)) + k for c, k in zip(p, corner, strict=True)]
            weight = np.prod([1 - abs(c - i) for c, i in zip(p, place, strict=True)])
            if mode == "nearest":
                place = [int(np.floor(c + 0.5)) for c in p]
                weight = float(not any(corner))
            if all(0 <= i < n for i, n in zip(place, size, strict=True)):
                y[(at[0], slice(None), *at[1:])] += (
                    weight * x[(at[0], slice(None), *place)]
                )
    return y


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample(axes: int, mode: str, outside: str, corners: bool) -> None:
    x = numbers(2, 3, *(4, 5, 3)[:axes])
    grid = np.random.default_rng(0).uniform(-2.2, 2.2, (2, *(3, 4, 2)[:axes], axes))
    got = F.grid_sample(proa.to_tensor(x), proa.to_tensor(grid), mode, outside, corners)
    want = sampled(x, grid, mode, outside, corners)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    slopes_agree(
        lambda x, g: F.grid_sample(x, g, mode, outside, corners), x, grid, tol=1e-4
    )


def test_a_point_or_a_pixel_that_is_nan() -> None:
    x = np.ones((1, 1, 3, 3), np.float32)
    grid = np.array([[[[np.nan, 0], [0, 0], [-1, -1]]]], np.float32)
    x[0, 0, 0, 2] = np.nan
    got = F.grid_sample(proa.to_tensor(x), proa.to_tensor(grid)).numpy()
    np.testing.assert_array_equal(got.ravel()[[0]], [0])
    got = F.grid_sample(proa.to_tensor(x), proa.to_tensor(grid), "nearest").numpy()
    np.testing.assert_array_equal(got.ravel(), [0, 1, 1])


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("axes", [2, 3])
def test_affine_grid(axes: int, corners: bool) -> None:
    theta, size = numbers(2, axes, axes + 1), (4, 3, 5)[:axes]
    got = F.affine_grid(proa.to_tensor(theta), [2, 1, *size], corners)
    want = np.zeros((2, *size, axes))
    for at in np.ndindex(size):
        p = [
            -1 + 2 * i / (n - 1) if corners else (2 * i + 1) / n - 1
            for i, n in zip(at[::-1], size[::-1], strict=True)
        ]
        want[(slice(None), *at)] = theta @ np.array([*p, 1])
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    shape = proa.to_tensor([2, 1, *size])
    np.testing.assert_array_equal(
        F.affine_grid(proa.to_tensor(theta), shape, corners).numpy(), got.numpy()
    )
    slopes_agree(lambda t: F.affine_grid(t, [2, 1, *size], corners), theta)


def test_the_identity_transform_returns_the_image() -> None:
    x = numbers(2, 3, 4, 5).astype(np.float32)
    theta = np.tile(np.eye(2, 3, dtype=np.float32), (2, 1, 1))
    for corners in (True, False):
        grid = F.affine_grid(proa.to_tensor(theta), x.shape, corners)
        got = F.grid_sample(proa.to_tensor(x), grid, align_corners=corners)
        np.testing.assert_allclose(got.numpy(), x, rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L086")
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_temporal_shift(layout: str) -> None:
    x = numbers(6, 5, 2, 3)  # two clips of three frames, 5 channels
    clips = x.reshape(2, 3, 5, 2, 3)
    want = np.zeros_like(clips)
    want[:, 1:, :1] = clips[:, :-1, :1]  # int(5 * 0.3) = 1 from the frame before
    want[:, :-1, 1:3] = clips[:, 1:, 1:3]  # up to int(5 * 0.6) = 3 from the one after
    want[:, :, 3:] = clips[:, :, 3:]
    want = want.reshape(x.shape)
    if layout == "NHWC":
        x, want = channels_last(x), channels_last(want)
    got = F.temporal_shift(proa.to_tensor(x), 3, 0.3, data_format=layout)
    np.testing.assert_array_equal(got.numpy(), want)
    slopes_agree(lambda x: F.temporal_shift(x, 3, 0.3, None, layout), x)


def test_recorded_with_an_unknown_batch() -> None:
    def both(x: Any, theta: Any) -> Any:
        y = F.grid_sample(x, F.affine_grid(theta, [1, 2, 3, 4]), "bilinear", "border")
        return y, F.temporal_shift(x, 2)

    x, theta = proa.to_tensor(numbers(4, 4, 3, 5)), proa.to_tensor(numbers(4, 2, 3))
    spec = proa.static.InputSpec
    recorded = proa.jit.to_static(
        both,
        input_spec=[spec([None, 4, 3, 5], "float64"), spec([None, 2, 3], "float64")],
    )
    for got, want in zip(recorded(x, theta), both(x, theta), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)


def test_errors_name_the_requirement() -> None:
    x, grid = proa.ones([1, 2, 3, 3]), proa.zeros([1, 2, 2, 2])
    with pytest.raises(ShapeError, match=r"\[grid_sample\] x must have rank 4 or 5"):
        F.grid_sample(x, proa.zeros([1, 2, 2, 3]))
    with pytest.raises(InvalidArgumentError, match="mode must be bilinear or nearest"):
        F.grid_sample(x, grid, "bicubic")
    with pytest.raises(InvalidArgumentError, match="padding_mode must be"):
        F.grid_sample(x, grid, padding_mode="wrap")
    with pytest.raises(ShapeError, match=r"\[affine_grid\] theta must be \(N, 2, 3\)"):
        F.affine_grid(proa.zeros([1, 2, 2]), [1, 1, 2, 2])
    with pytest.raises(ShapeError, match="seg_num 2 must divide the frames"):
        F.temporal_shift(proa.ones([3, 4, 2, 2]), 2)
    with pytest.raises(InvalidArgumentError, match="shift_ratio must be in"):
        F.temporal_shift(proa.ones([2, 4, 2, 2]), 2, 0.7)
