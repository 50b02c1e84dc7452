"""Poolings of equal elements and NaN, and the order of memory."""

import numpy as np
import pytest

import proa
from proa import _core
from proa.nn import functional as F

ops = _core.ops
RNG = np.random.default_rng(9)


def drawn(channels, height, width, nans):
    """(2, channels, height, width) of few values, so that many are equal."""
    x = RNG.integers(0, 3, (2, channels, height, width)).astype(np.float32)
    if nans:
        x[RNG.random(x.shape) < 0.2] = np.nan
    return x


def places(x, kernel, stride, padding):
    """The index of the first maximum, or first NaN, of each window."""
    n, channels, height, width = x.shape
    out = [(s + 2 * padding - kernel) // stride + 1 for s in (height, width)]
    found = np.empty((n, channels, *out), np.int32)
    for i, j in np.ndindex(*out):
        top, left = (max(k * stride - padding, 0) for k in (i, j))
        bottom, right = (k * stride - padding + kernel for k in (i, j))
        part = x[:, :, top:bottom, left:right]
        flat = part.reshape(n, channels, -1)
        at = np.argmax(flat, -1)  # the first, and NaN counts as greatest
        found[:, :, i, j] = (top + at // part.shape[3]) * width + left
        found[:, :, i, j] += at % part.shape[3]
    return found


@pytest.mark.parametrize("nans", [False, True])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("channels", "height", "width", "kernel", "stride", "padding"),
    [(3, 7, 9, 3, 2, 1), (17, 6, 21, 2, 2, 0), (2, 5, 530, 3, 1, 1)],
)
def test_the_first_greatest(
    channels, height, width, kernel, stride, padding, order, nans
):
    x = drawn(channels, height, width, nans)
    t = proa.to_tensor(x)
    if order == "NHWC":
        t = proa.to_tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        t = t.transpose([0, 3, 1, 2])
    t.stop_gradient = False
    want = places(x, kernel, stride, padding)
    y, index = F.max_pool2d(t, kernel, stride, padding, return_mask=True)
    np.testing.assert_array_equal(index.numpy(), want)
    flat = x.reshape(*x.shape[:2], -1)
    greatest = np.take_along_axis(flat, want.reshape(*x.shape[:2], -1), -1)
    np.testing.assert_array_equal(y.numpy(), greatest.reshape(want.shape))
    dy = RNG.integers(-4, 5, want.shape).astype(np.float32)
    (dx,) = proa.grad(
        [F.max_pool2d(t, kernel, stride, padding)], [t], [proa.to_tensor(dy)]
    )
    total = np.zeros_like(flat)
    for a, b in np.ndindex(*x.shape[:2]):
        np.add.at(total[a, b], want[a, b].ravel(), dy[a, b].ravel())
    np.testing.assert_array_equal(dx.numpy(), total.reshape(x.shape))


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("channels", "height", "width", "kernel", "stride", "padding"),
    [(1, 6, 40, 2, 2, 0), (6, 8, 28, 2, 2, 0), (20, 7, 9, 3, 2, 1), (64, 5, 6, 3, 1, 1),
     (70, 4, 300, 2, 2, 0), (3, 3, 9000, 3, 3, 0)],
)  # fmt: skip
def test_the_greatest_of_int8_channels_last(
    channels, height, width, kernel, stride, padding, cut
):
    wide = channels + 5 if cut else channels  # a part of the channels in memory
    whole = RNG.integers(-128, 128, (2, height, width, wide)).astype(np.int8)
    x = proa.to_tensor(whole).transpose([0, 3, 1, 2])
    if cut:
        x = x[:, 2 : 2 + channels]
        whole = whole[..., 2 : 2 + channels]
    got = ops.max_pool2d(
        x, kernel=[kernel] * 2, stride=[stride] * 2, padding=[padding] * 4
    ).numpy()
    plain = whole.transpose(0, 3, 1, 2)
    edge = [(0, 0)] * 2 + [(padding, padding)] * 2
    padded = np.pad(plain, edge, constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    np.testing.assert_array_equal(
        got, windows[:, :, ::stride, ::stride].max(axis=(-1, -2))
    )
