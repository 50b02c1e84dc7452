"""3 x 3 convolutions with many channels: fewer products, a stated error."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import proa
from proa.nn import functional as F

RNG = np.random.default_rng(5)
# batch, depth, outs, height, width, padding
SHAPES = [
    (2, 32, 40, 9, 13, 1),
    (1, 50, 32, 4, 4, 0),
    (3, 64, 64, 3, 5, 2),
    (4, 37, 51, 8, 7, 1),
    (2, 24, 24, 6, 9, 1),
]


def direct(x, w, padding):
    """The sums of products and of their magnitudes in float64."""
    padded = np.pad(
        x.astype(np.float64), [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2]
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    total = np.einsum("ncijpq,ocpq->noij", windows, w.astype(np.float64))
    return total, np.einsum("ncijpq,ocpq->noij", np.abs(windows), np.abs(w))


def direct_dw(x, dy, padding):
    """The kernels' gradient, and the sums of its products' magnitudes, in float64."""
    padded = np.pad(
        x.astype(np.float64), [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2]
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    total = np.einsum("ncijpq,noij->ocpq", windows, dy.astype(np.float64))
    return total, np.einsum("ncijpq,noij->ocpq", np.abs(windows), np.abs(dy))


def worst(shape):
    """Greatest error of the result and of both gradients, over what is summed."""
    n, depth, outs, h, w, padding = shape
    x = RNG.standard_normal((n, depth, h, w)).astype(np.float32)
    kernels = RNG.standard_normal((outs, depth, 3, 3)).astype(np.float32)
    a, b = (proa.to_tensor(v, stop_gradient=False) for v in (x, kernels))
    y = F.conv2d(a, b, padding=padding)
    want, size = direct(x, kernels, padding)
    dy = RNG.standard_normal(y.shape).astype(np.float32)
    dx, dw = proa.grad([y], [a, b], [proa.to_tensor(dy)])
    want_dw, size_dw = direct_dw(x, dy, padding)
    # The input's gradient correlates dy with the flipped kernels.
    flipped = np.flip(kernels, (2, 3)).transpose(1, 0, 2, 3)
    want_dx, size_dx = direct(dy, flipped, 2 - padding)
    return max(
        float((np.abs(y.numpy() - want) / size).max()),
        float((np.abs(dx.numpy() - want_dx) / size_dx).max()),
        float((np.abs(dw.numpy() - want_dw) / size_dw).max()),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_is_within_the_bound(shape):
    assert worst(shape) < 2e-6


@pytest.mark.parametrize(("dtype", "unit"), [("bfloat16", 2**-8), ("float16", 2**-11)])
@pytest.mark.parametrize("shape", SHAPES)
def test_16_bit_floats_round_once(shape, dtype, unit):
    n, depth, outs, h, w, padding = shape

    def drawn(*size):
        wide = RNG.standard_normal(size).astype(np.float32)
        narrow = proa.to_tensor(wide).astype(dtype)
        return narrow, narrow.astype("float32").numpy()

    (x, x_wide), (kernels, k_wide) = drawn(n, depth, h, w), drawn(outs, depth, 3, 3)
    x.stop_gradient = kernels.stop_gradient = False
    y = F.conv2d(x, kernels, padding=padding)
    dy, dy_wide = drawn(*y.shape)
    dx, dw = proa.grad([y], [x, kernels], [dy])
    flipped = np.flip(k_wide, (2, 3)).transpose(1, 0, 2, 3)
    for got, (want, size) in (
        (y, direct(x_wide, k_wide, padding)),
        (dx, direct(dy_wide, flipped, 2 - padding)),
        (dw, direct_dw(x_wide, dy_wide, padding)),
    ):
        error = np.abs(got.astype("float32").numpy() - want)
        assert (error <= unit * np.abs(want) + 3e-6 * size).all()


def digest_of_one():
    """SHA-256 of the bits of one convolution."""
    rng = np.random.default_rng(6)
    x, w = (rng.standard_normal((64, 64, 3, 3)).astype(np.float32) for _ in "xw")
    y = F.conv2d(proa.to_tensor(x), proa.to_tensor(w), padding=1).numpy()
    return hashlib.sha256(y.tobytes()).hexdigest()


def test_bias_and_strided_inputs():
    x = RNG.standard_normal((2, 8, 9, 64)).astype(np.float32)
    w = RNG.standard_normal((32, 32, 3, 3)).astype(np.float32)
    bias = RNG.standard_normal(32).astype(np.float32)
    view = proa.to_tensor(x)[:, :, :, ::2].transpose([0, 3, 1, 2])
    got = F.conv2d(view, proa.to_tensor(w), proa.to_tensor(bias), padding=1).numpy()
    want, size = direct(x[:, :, :, ::2].transpose(0, 3, 1, 2), w, 1)
    assert (np.abs(got - want - bias[:, None, None]) / size).max() < 2e-6


def test_a_batch_is_the_same_as_its_parts():
    x = proa.to_tensor(RNG.standard_normal((40, 32, 6, 6)).astype(np.float32))
    w = proa.to_tensor(RNG.standard_normal((48, 32, 3, 3)).astype(np.float32))
    whole = F.conv2d(x, w, padding=1).numpy()
    for i in (0, 17, 39):
        part = F.conv2d(x[i : i + 1], w, padding=1).numpy()
        assert part.tobytes() == whole[i : i + 1].tobytes()


def test_the_kernels_gradient_does_not_depend_on_the_threads():
    x, w, dy = (
        proa.to_tensor(RNG.standard_normal(shape).astype(np.float32))
        for shape in ((8, 40, 14, 14), (70, 40, 3, 3), (8, 70, 14, 14))
    )
    w.stop_gradient = False
    before = proa.get_num_threads()
    bits = set()
    for threads in (1, 2, 3):
        proa.set_num_threads(threads)
        (dw,) = proa.grad([F.conv2d(x, w, padding=1)], [w], [dy])
        bits.add(dw.numpy().tobytes())
    proa.set_num_threads(before)
    assert len(bits) == 1


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_every_instruction_set_and_the_direct_algorithm(isa):
    results = []
    for winograd in ("1", "0"):
        done = subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PROA_ISA": isa, "PROA_WINOGRAD": winograd},
            capture_output=True,
            text=True,
        )
        if "PROA_ISA" in done.stderr:
            pytest.skip(f"{isa} is not in this build or not of this CPU")
        assert done.returncode == 0, done.stderr
        error, digest = done.stdout.split()
        assert float(error) < (2e-6 if winograd == "1" else 1e-6)
        results.append(digest)
    assert results[0] != results[1]  # they round differently


if __name__ == "__main__":
    print(max(worst(shape) for shape in SHAPES), digest_of_one())
