"""Depthwise convolutions of windows, borders and channels that fill no whole block."""

import itertools

import numpy as np
import pytest

from proa import Tensor, to_tensor
from proa.runtime import call_operator

RNG = np.random.default_rng(11)
ACTS = {
    "none": lambda y: y,
    "relu6": lambda y: np.clip(y, 0, 6),
    "hard_swish": lambda y: y * np.clip(y + 3, 0, 6) / 6,
    "silu": lambda y: y / (1 + np.exp(-y)),
}


def expected(x, w, bias, stride, padding):
    """In float64, tap by tap."""
    top, bottom, left, right = padding
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)])
    taps = w.shape[2]
    rows, cols = ((x.shape[a] - taps) // stride + 1 for a in (2, 3))
    y = np.zeros((x.shape[0], x.shape[1], rows, cols))
    for p, q in itertools.product(range(taps), repeat=2):
        part = x[:, :, p : p + rows * stride : stride, q : q + cols * stride : stride]
        y += part[:, :, :rows, :cols] * w[:, 0, p, q].astype(np.float64)[:, None, None]
    return y + bias[:, None, None]


def in_memory_order(x: np.ndarray, order: str) -> Tensor:
    """An (N, C, H, W) tensor whose channels are innermost, or its columns."""
    if order == "nchw":
        return to_tensor(x)
    return to_tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(
        [0, 3, 1, 2]
    )


@pytest.mark.parametrize("order", ["nhwc", "nchw"])
@pytest.mark.parametrize("channels", [16, 17, 40])
@pytest.mark.parametrize(
    ("taps", "stride", "padding", "size"),
    [
        (3, 1, (1, 1, 1, 1), (9, 14)),
        (3, 1, (0, 0, 0, 0), (6, 7)),
        (3, 1, (2, 0, 0, 2), (1, 4)),
        (3, 2, (1, 1, 1, 1), (9, 11)),
        (3, 2, (0, 1, 0, 1), (8, 8)),
        (5, 1, (2, 2, 2, 2), (4, 5)),
        (5, 2, (2, 2, 2, 2), (9, 9)),
        (3, 1, (1, 1, 1, 1), (3, 3)),
    ],
)
def test_it_is_the_sum_of_the_taps_inside(taps, stride, padding, size, channels, order):
    x = RNG.standard_normal((2, channels, *size)).astype(np.float32)
    w = RNG.standard_normal((channels, 1, taps, taps)).astype(np.float32)
    bias = RNG.standard_normal(channels).astype(np.float32)
    plain = expected(x, w, bias, stride, padding)
    for act, function in ACTS.items():
        (y,) = call_operator(
            "conv2d_act", in_memory_order(x, order), to_tensor(w), to_tensor(bias),
            stride=[stride, stride], padding=list(padding), groups=channels, act=act,
        )  # fmt: skip
        np.testing.assert_allclose(y.numpy(), function(plain), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("taps", [3, 5])
def test_taps_outside_the_image_add_nothing_even_if_they_are_infinite(taps):
    x = RNG.standard_normal((1, 32, 5, 9)).astype(np.float32)
    w = np.ones((32, 1, taps, taps), np.float32)
    w[:, :, 0, :] = np.inf  # the first line of the window
    (y,) = call_operator(
        "conv2d", in_memory_order(x, "nhwc"), to_tensor(w), padding=[taps // 2] * 4,
        groups=32,
    )  # fmt: skip
    inside = taps // 2
    assert np.isfinite(y.numpy()[:, :, :inside]).all()
    assert not np.isfinite(y.numpy()[:, :, inside:]).any()


@pytest.mark.parametrize("act", ["none", "relu6", "hard_swish"])
@pytest.mark.parametrize("channels", [24, 32, 80])
@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_bfloat16_is_float32_rounded_once(taps, stride, channels, act):
    x = to_tensor(RNG.standard_normal((2, channels, 10, 11)).astype(np.float32))
    w = to_tensor(RNG.standard_normal((channels, 1, taps, taps)).astype(np.float32))
    bias = to_tensor(RNG.standard_normal(channels).astype(np.float32))
    narrow = in_memory_order(x.numpy(), "nhwc").astype("bfloat16")
    arrays = [narrow, w.astype("bfloat16"), bias.astype("bfloat16")]
    how = {"stride": [stride] * 2, "padding": [taps // 2] * 4, "groups": channels}
    (y,) = call_operator("conv2d_act", *arrays, act=act, **how)
    (wide,) = call_operator(
        "conv2d_act", *[a.astype("float32") for a in arrays], act=act, **how
    )
    same = wide.astype("bfloat16").astype("float32").numpy()
    np.testing.assert_array_equal(y.astype("float32").numpy(), same)
