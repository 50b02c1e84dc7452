"""Depthwise convolutions of large arrays that are copied a band of lines at a time."""

import numpy as np
import pytest

import proa
from proa import _core

from ..threads import results_by_threads

RNG = np.random.default_rng(8)
# stride, padding (top, bottom, left, right), dilation
GEOMETRIES = [
    ((1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 1), (0, 2, 3, 0), (1, 2)),
    ((1, 3), (4, 0, 0, 1), (3, 1)),
]


def convolve(x, w, geometry):
    stride, padding, dilation = (list(v) for v in geometry)
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    y = _core.ops.conv2d(x, w, **how, groups=x.shape[1])
    return y.astype("float32").numpy()


def direct(x, w, geometry):
    """Sums in float64 of x (N, C, H, W) and w (C, KH, KW), and of magnitudes."""
    (step_h, step_w), (top, bottom, left, right), (tap_h, tap_w) = geometry
    padded = np.pad(
        x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)]
    )
    rows = (padded.shape[2] - (w.shape[1] - 1) * tap_h - 1) // step_h + 1
    cols = (padded.shape[3] - (w.shape[2] - 1) * tap_w - 1) // step_w + 1
    total = np.zeros((*x.shape[:2], rows, cols))
    size = np.zeros_like(total)
    for p in range(w.shape[1]):
        for q in range(w.shape[2]):
            lines = slice(p * tap_h, p * tap_h + (rows - 1) * step_h + 1, step_h)
            columns = slice(q * tap_w, q * tap_w + (cols - 1) * step_w + 1, step_w)
            part = padded[:, :, lines, columns] * w[:, p, q, None, None]
            total += part
            size += np.abs(part)
    return total, size


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("layout", ["float16", "bfloat16", "planes"])
def test_bands_are_the_same_as_whole_images(geometry, layout):
    x = RNG.standard_normal((4, 41, 97, 84)).astype(np.float32)
    w = proa.to_tensor(RNG.standard_normal((41, 1, 3, 3)).astype(np.float32))
    a = proa.to_tensor(x)
    if layout != "planes":
        w = w.astype(layout)
        last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        a = proa.to_tensor(last).astype(layout).transpose([0, 3, 1, 2])
    results = results_by_threads(lambda: convolve(a, w, geometry), (1, 3))
    assert results[0].tobytes() == results[1].tobytes()
    for i in range(4):  # small enough to be copied at once
        one = convolve(a[i : i + 1], w, geometry)
        assert one.tobytes() == results[0][i : i + 1].tobytes()
    wide = [v.astype("float32").numpy() for v in (a, w)]
    want, size = direct(wide[0], wide[1][:, 0], geometry)
    unit = {"float16": 2**-11, "bfloat16": 2**-8, "planes": 2**-23}[layout]
    bound = unit * np.abs(want) + 1e-6 * size
    assert (np.abs(results[0] - want) <= bound).all()
