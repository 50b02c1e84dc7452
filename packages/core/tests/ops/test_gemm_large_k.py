"""Products with so many steps that they are done in blocks, with a bias."""

import numpy as np
import pytest

import proa
from proa.nn import functional as F

RNG = np.random.default_rng(6)
BOUND = {"float32": 2e-6, "float64": 1e-14}  # of the sum of magnitudes


def draw(dtype, *shape):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
@pytest.mark.parametrize(("steps", "columns"), [(1500, 40), (4099, 7)])
def test_linear(dtype, rows, steps, columns):
    x, w, b = (
        draw(dtype, rows, steps),
        draw(dtype, steps, columns),
        draw(dtype, columns),
    )
    got = F.linear(*map(proa.to_tensor, (x, w, b))).numpy()
    size = np.abs(x).astype("float64") @ np.abs(w)
    want = x.astype("float64") @ w.astype("float64") + b
    assert (np.abs(got - want) / size).max() < BOUND[dtype]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(
    ("depth", "outs", "size", "kernel", "stride"),
    [(160, 36, 5, 3, 2), (512, 24, 1, 3, 1), (2100, 20, 3, 1, 1), (70, 33, 6, 5, 1)],
)
def test_conv2d(dtype, batch, depth, outs, size, kernel, stride):
    x = draw(dtype, batch, depth, size, size)
    w, b = draw(dtype, outs, depth, kernel, kernel), draw(dtype, outs)
    edge = kernel // 2
    got = F.conv2d(*map(proa.to_tensor, (x, w, b)), stride=stride, padding=edge).numpy()
    padded = np.pad(x.astype("float64"), [(0, 0), (0, 0), (edge,) * 2, (edge,) * 2])
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (kernel, kernel), axis=(2, 3)
    )[:, :, ::stride, ::stride]
    want = np.einsum("ncijpq,ocpq->noij", windows, w.astype("float64"))
    scale = np.einsum("ncijpq,ocpq->noij", np.abs(windows), np.abs(w))
    error = np.abs(got - want - b[:, None, None]) / scale
    assert error.max() < BOUND[dtype]
