"""Convolutions of bfloat16 and their gradients, element by element, against float64.

The kernels' layouts, numbers of channels and steps are those for which packing and the
writing of gradients take different paths.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import proa
from proa.nn import functional as F

from ..threads import results_by_threads

RNG = np.random.default_rng(23)

# batch, channels, outs, edge, kernel, stride, padding, dilation, groups
SHAPES = [
    (2, 3, 40, 14, 7, 2, 3, 1, 1),  # the first layer of networks of images
    (3, 3, 64, 16, 3, 2, 1, 1, 1),
    (2, 2, 33, 11, 5, 1, 2, 1, 1),
    (1, 4, 8, 9, 3, 3, 0, 2, 1),
    (2, 6, 10, 8, 3, 1, 1, 1, 2),
    (2, 16, 16, 6, 1, 1, 0, 1, 1),
    (2, 34, 17, 7, 1, 2, 0, 1, 1),
    (1, 33, 50, 7, 3, 1, 1, 1, 1),
    (1, 70, 64, 6, 3, 2, 1, 1, 1),
    (1, 20, 35, 9, 5, 2, 2, 1, 1),
    (1, 18, 20, 9, 7, 1, 3, 1, 1),
    (1, 24, 48, 9, 2, 2, 0, 1, 2),
    (2, 260, 300, 4, 3, 1, 1, 1, 1),
    (1, 530, 40, 3, 1, 1, 0, 1, 1),
    (1, 1024, 40, 7, 1, 1, 0, 1, 1),  # pixels 2 KiB apart, an odd number
    (2, 512, 33, 7, 1, 2, 0, 1, 1),
    (1, 72, 72, 9, 3, 1, 1, 1, 72),
    (2, 17, 270, 21, 3, 1, 1, 1, 1),  # sums over several blocks of pixels
    (1, 64, 70, 23, 1, 1, 0, 1, 2),
]
LAYOUTS = {
    "outs, channels, taps": (0, 1, 2, 3),
    "outs, taps, channels": (0, 2, 3, 1),
    "taps, channels, outs": (2, 3, 1, 0),
    "channels, outs, taps": (1, 0, 2, 3),
}


def narrow(array, order=(0, 1, 2, 3)):
    """A bfloat16 tensor whose axes are in that order in memory, and its values."""
    stored = proa.to_tensor(np.ascontiguousarray(array.transpose(order), "float32"))
    view = stored.astype("bfloat16").transpose(list(np.argsort(order)))
    return view, values(view)


def values(x):
    return x.astype("float64").numpy()


def by_taps(shape, x):
    """The padded image, and for each tap the part that it reads."""
    _, _, _, edge, kernel, stride, padding, dilation, _ = shape
    border = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    wide = np.pad(x, border)
    size = (edge + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1
    along = [
        slice(p * dilation, p * dilation + (size - 1) * stride + 1, stride)
        for p in range(kernel)
    ]
    return wide, [
        (p, q, along[p], along[q]) for p in range(kernel) for q in range(kernel)
    ]


def convolution(shape, x, w):
    groups = shape[-1]
    wide, taps = by_taps(shape, x)
    parts = np.split(wide, groups, 1)
    total = [
        sum(
            np.einsum("nchw,oc->nohw", a[:, :, h, v], b[:, :, p, q])
            for p, q, h, v in taps
        )
        for a, b in zip(parts, np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(total, 1)


def gradients(shape, x, w, dy):
    """Of the input and of the kernels, by the definition."""
    groups, padding, edge = shape[-1], shape[6], shape[3]
    wide, taps = by_taps(shape, x)
    dx, dw = np.zeros_like(wide), np.zeros_like(w)
    channels, outs = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        c, o = slice(g * channels, (g + 1) * channels), slice(g * outs, (g + 1) * outs)
        for p, q, h, v in taps:
            dx[:, c, h, v] += np.einsum("nohw,oc->nchw", dy[:, o], w[o, :, p, q])
            dw[o, :, p, q] += np.einsum("nohw,nchw->oc", dy[:, o], wide[:, c, h, v])
    inner = slice(padding, padding + edge)
    return dx[:, :, inner, inner], dw


def assert_close(got, want, size, steps):
    """Sums of `steps` products in float32, rounded once to bfloat16."""
    bound = (steps + 2) * 2.0**-24 * size + 2.0**-8 * np.abs(want)
    assert (np.abs(values(got) - want) <= bound).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_and_gradients_match_the_definition(shape, layout):
    n, channels, outs, edge, kernel, stride, padding, dilation, groups = shape
    x, x_wide = narrow(RNG.standard_normal((n, channels, edge, edge)), (0, 2, 3, 1))
    size = (outs, channels // groups, kernel, kernel)
    w, w_wide = narrow(RNG.standard_normal(size), LAYOUTS[layout])
    x.stop_gradient = w.stop_gradient = False
    y = F.conv2d(x, w, None, stride, padding, dilation, groups)
    magnitude = convolution(shape, np.abs(x_wide), np.abs(w_wide))
    taps = kernel**2
    assert_close(y, convolution(shape, x_wide, w_wide), magnitude, taps * size[1])
    dy, dy_wide = narrow(RNG.standard_normal(y.shape), (0, 2, 3, 1))
    dx, dw = proa.grad([y], [x, w], [dy])
    want = gradients(shape, x_wide, w_wide, dy_wide)
    sizes = gradients(shape, np.abs(x_wide), np.abs(w_wide), np.abs(dy_wide))
    assert_close(dx, want[0], sizes[0], taps * outs // groups)
    assert_close(dw, want[1], sizes[1], n * y.shape[2] * y.shape[3])


def test_gradients_have_the_same_bits_for_any_threads():
    x, _ = narrow(RNG.standard_normal((4, 3, 30, 30)), (0, 2, 3, 1))
    deep, _ = narrow(RNG.standard_normal((4, 64, 15, 15)), (0, 2, 3, 1))
    first, _ = narrow(RNG.standard_normal((64, 3, 7, 7)))
    second, _ = narrow(RNG.standard_normal((70, 64, 3, 3)))

    def compute():
        results = []
        for image, kernels, stride in ((x, first, 2), (deep, second, 1)):
            image.stop_gradient = kernels.stop_gradient = False
            y = F.conv2d(image, kernels, None, stride, 1)
            results += [values(g) for g in proa.grad([y * y], [image, kernels])]
        return results

    for one, other in zip(*results_by_threads(compute, (1, 2)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_not_finite_reaches_its_taps_alone():
    x = np.zeros((1, 3, 8, 8))
    x[0, 1, 7, 7] = np.inf
    image, _ = narrow(x, (0, 2, 3, 1))
    w, _ = narrow(np.ones((32, 3, 3, 3)))
    w.stop_gradient = False
    y = F.conv2d(image, w, None, 2, 1)
    (dw,) = proa.grad([y], [w], [proa.ones(y.shape, "bfloat16")])
    got = np.isfinite(values(dw))
    # The last pixel is read by the last tap of the last window alone.
    want = np.ones(got.shape, bool)
    want[:, 1, 2, 2] = False
    np.testing.assert_array_equal(got, want)


@pytest.mark.skipif("PROA_BF16" in os.environ, reason="started by this test itself")
@pytest.mark.parametrize(
    ("mode", "amx"), [("off", "off"), ("emulate", "off"), ("emulate", "emulate")]
)
def test_the_same_with_other_paths_of_products(mode, amx):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "PROA_BF16": mode, "PROA_AMX": amx},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
