"""Convolutions large enough for every path of the kernels: bounds, threads, batches."""

import numpy as np
import pytest

import proa
from proa import _core

from ..threads import results_by_threads

ops = _core.ops
RNG = np.random.default_rng(8)
# batch, depth, outs, height, width, kernel, stride, padding, dilation, groups
SHAPES = [
    (2, 3, 40, 21, 34, 7, 2, 3, 1, 1),  # few channels
    (9, 1, 6, 12, 11, 3, 1, 1, 1, 1),
    (2, 6, 16, 14, 14, 5, 1, 0, 1, 1),
    (2, 64, 48, 20, 22, 3, 2, 1, 1, 1),  # bands of lines
    (1, 20, 33, 9, 10, 3, 1, 2, 2, 1),  # a dilated one, panels across taps
    (3, 40, 300, 13, 12, 1, 1, 0, 1, 1),  # pointwise, many panels
    (2, 96, 32, 15, 15, 1, 2, 0, 1, 1),
    (2, 48, 64, 11, 9, 3, 2, 1, 1, 2),  # groups
    (2, 24, 24, 18, 17, 3, 2, 1, 1, 24),  # depthwise
    (2, 64, 64, 12, 13, 3, 2, 1, 1, 64),  # sums and kernels in registers
    (2, 80, 80, 7, 9, 3, 1, 1, 1, 80),
    (2, 32, 256, 14, 15, 1, 1, 0, 1, 1),  # pointwise, as wide as a panel
    (1, 160, 160, 15, 14, 3, 2, 1, 1, 1),  # large kernels, windows across the border
    (1, 160, 160, 11, 12, 3, 2, 2, 2, 1),
    (1, 90, 250, 9, 9, 3, 2, 1, 1, 1),  # kernels that end within blocks and panels
    (2, 37, 45, 9, 16, 5, 2, 2, 1, 1),
    (2, 12, 14, 12, 10, 3, 2, 1, 1, 2),
    (2, 32, 64, 16, 8, 1, 2, 0, 1, 1),  # pointwise with a step: lines of few pixels
    (3, 512, 40, 9, 7, 1, 2, 0, 1, 1),  # pixels 2 KB apart
    (2, 40, 24, 13, 10, 1, 3, 0, 1, 2),
    (1, 264, 250, 13, 14, 3, 1, 1, 1, 1),  # minimal filtering with wide kernels
]


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def arrays(shape):
    """x, w, dy of a shape, and its geometry."""
    n, depth, outs, h, w, kernel, stride, padding, dilation, groups = shape
    spread = dilation * (kernel - 1) + 1
    out = [(size + 2 * padding - spread) // stride + 1 for size in (h, w)]
    how = {
        "stride": [stride] * 2,
        "padding": [padding] * 4,
        "dilation": [dilation] * 2,
        "groups": groups,
    }
    # Channels-last, as a network has them.
    x = np.moveaxis(draw(n, h, w, depth), 3, 1)
    dy = np.moveaxis(draw(n, *out, outs), 3, 1)
    return x, draw(outs, depth // groups, kernel, kernel), dy, how


def taps(shape, x, dy):
    """Each tap with the slice of padded x that it multiplies, and its position."""
    kernel, stride, _, dilation = shape[5:9]
    for p in range(kernel):
        for q in range(kernel):
            at = (
                ...,
                slice(p * dilation, None, stride),
                slice(q * dilation, None, stride),
            )
            yield p, q, at, dy.shape[2:]


def reference(shape, x, w, dy):
    """y, dx and dw by sums over taps in float64."""
    padding, groups = shape[7], shape[9]
    n, depth, outs = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    edge = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    big = np.pad(x.astype(np.float64), edge)
    split = big.reshape(n, groups, depth, *big.shape[2:])
    kernels = w.reshape(groups, outs, depth, *w.shape[2:]).astype(np.float64)
    d = dy.reshape(n, groups, outs, *dy.shape[2:]).astype(np.float64)
    y, dx, dw = np.zeros_like(d), np.zeros_like(split), np.zeros_like(kernels)
    for p, q, at, (rows, cols) in taps(shape, x, dy):
        part = split[at][..., :rows, :cols]
        y += np.einsum("ngchw,goc->ngohw", part, kernels[..., p, q])
        dx[at][..., :rows, :cols] += np.einsum(
            "ngohw,goc->ngchw", d, kernels[..., p, q]
        )
        dw[..., p, q] = np.einsum("ngchw,ngohw->goc", part, d)
    h, v = x.shape[2:]
    dx = dx.reshape(big.shape)[..., padding : padding + h, padding : padding + v]
    return y.reshape(dy.shape), dx, dw.reshape(w.shape)


def results(x, w, dy, how):
    """y, dx and dw."""
    a, k, d = map(proa.to_tensor, (x, w, dy))
    y = ops.conv2d(a, k, **how)
    dx = ops.conv2d_grad_input(d, k, a, **how)
    dw = ops.conv2d_grad_weight(a, d, k, **how)
    return [t.numpy() for t in (y, dx, dw)]


@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_within_the_bound(shape):
    x, w, dy, how = arrays(shape)
    got = results(x, w, dy, how)
    want = reference(shape, x, w, dy)
    size = reference(shape, *map(np.abs, (x, w, dy)))
    for a, b, magnitude in zip(got, want, size, strict=True):
        assert (np.abs(a - b) / (magnitude + 1e-30)).max() < 2e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_bits_do_not_depend_on_the_number_of_threads(shape):
    x, w, dy, how = arrays(shape)
    found = results_by_threads(lambda: [r.tobytes() for r in results(x, w, dy, how)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_has_the_bits_of_its_images(shape):
    x, w, dy, how = arrays((3, *shape[1:]))
    y, dx, _ = results(x, w, dy, how)
    for i in range(3):
        one = results(x[i : i + 1], w, dy[i : i + 1], how)
        assert one[0].tobytes() == y[i : i + 1].tobytes()
        assert one[1].tobytes() == dx[i : i + 1].tobytes()


def test_a_pointwise_step_into_the_padding_reads_zeros():
    x, w = draw(2, 6, 5, 7), draw(4, 6, 1, 1)
    how = {"stride": [2, 3], "padding": [0, 3, 0, 4], "dilation": [1, 1], "groups": 1}
    got = ops.conv2d(proa.to_tensor(x), proa.to_tensor(w), **how).numpy()
    padded = np.pad(x, [(0, 0), (0, 0), (0, 3), (0, 4)])[:, :, ::2, ::3]
    want = np.einsum("nchw,oc->nohw", padded, w[..., 0, 0])
    assert got.shape == (2, 4, 4, 4)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
