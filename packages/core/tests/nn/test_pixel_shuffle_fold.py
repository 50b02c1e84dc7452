"""Channels moved into space, windows into channels, whole channels dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from .reference import channels_last, numbers, slopes_agree


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got.numpy(), want)


def test_pixel_shuffle_and_back() -> None:
    x = numbers(2, 12, 3, 4)
    want = np.zeros((2, 3, 6, 8))
    for c, h, w in np.ndindex(3, 6, 8):
        want[:, c, h, w] = x[:, (c * 2 + h % 2) * 2 + w % 2, h // 2, w // 2]
    same(F.pixel_shuffle(proa.to_tensor(x), 2), want)
    same(F.pixel_unshuffle(proa.to_tensor(want), 2), x)
    same(nn.PixelShuffle(2)(proa.to_tensor(x)), want)
    same(nn.PixelUnshuffle(2)(proa.to_tensor(want)), x)
    last = proa.to_tensor(channels_last(x))
    same(F.pixel_shuffle(last, 2, "NHWC"), channels_last(want))
    back = F.pixel_unshuffle(proa.to_tensor(channels_last(want)), 2, "NHWC")
    same(back, channels_last(x))
    slopes_agree(lambda x: F.pixel_shuffle(x, 2), numbers(1, 4, 2, 2))
    with pytest.raises(ShapeError, match="9 must divide the channels"):
        F.pixel_shuffle(proa.to_tensor(x), 3)


def test_channel_shuffle() -> None:
    x = numbers(2, 6, 2, 3)
    order = [0, 3, 1, 4, 2, 5]
    same(F.channel_shuffle(proa.to_tensor(x), 2), x[:, order])
    got = nn.ChannelShuffle(2, "NHWC")(proa.to_tensor(channels_last(x)))
    same(got, channels_last(x[:, order]))
    with pytest.raises(ShapeError, match="4 must divide the channels"):
        F.channel_shuffle(proa.to_tensor(x), 4)


def columns(x: Any, kernel: Any, step: Any, border: Any, gap: Any) -> Any:
    """Window by window; border is top, left, bottom, right."""
    top, left, bottom, right = border
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [g * (k - 1) + 1 for k, g in zip(kernel, gap, strict=True)]
    found = [
        x[:, :, i : i + reach[0] : gap[0], j : j + reach[1] : gap[1]].reshape(
            len(x), -1
        )
        for i in range(0, x.shape[2] - reach[0] + 1, step[0])
        for j in range(0, x.shape[3] - reach[1] + 1, step[1])
    ]
    return np.stack(found, -1)


WINDOWS = [
    (2, 1, 0, 1, ([2, 2], [1, 1], [0] * 4, [1, 1])),
    ([3, 2], [2, 1], [1, 2], 1, ([3, 2], [2, 1], [1, 2, 1, 2], [1, 1])),
    ([2, 3], 1, [0, 1, 2, 0], [2, 1], ([2, 3], [1, 1], [0, 1, 2, 0], [2, 1])),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "ref"), WINDOWS)
def test_unfold_and_fold(
    kernel: Any, stride: Any, padding: Any, dilation: Any, ref: Any
) -> None:
    x = numbers(2, 3, 5, 6)
    want = columns(x, *ref)
    got = F.unfold(proa.to_tensor(x), kernel, stride, padding, dilation)
    same(got, want)
    layer = nn.Unfold(kernel, dilation, padding, stride)
    same(layer(proa.to_tensor(x)), want)
    # fold is the transpose of unfold: <fold(c), x> = <c, unfold(x)>.
    c = numbers(*want.shape)
    back = F.fold(proa.to_tensor(c), [5, 6], kernel, stride, padding, dilation)
    assert back.shape == [2, 3, 5, 6]
    np.testing.assert_allclose((back.numpy() * x).sum(), (c * want).sum())
    fold = nn.Fold([5, 6], kernel, dilation, padding, stride)
    same(fold(proa.to_tensor(c)), back.numpy())
    assert "output_sizes=[5, 6]" in repr(fold)
    slopes_agree(lambda x: F.unfold(x, kernel, stride, padding, dilation), x[:1, :1])
    slopes_agree(lambda c: F.fold(c, [5, 6], kernel, stride, padding, dilation), c)


def test_unfold_by_the_older_names() -> None:
    x = proa.to_tensor(numbers(1, 2, 5, 5))
    want = F.unfold(x, 2, dilations=2).numpy()
    same(F.unfold(x, kernel_size=2, dilation=2), want)
    same(nn.Unfold(kernel_size=2, dilation=2)(x), want)
    with pytest.raises(InvalidArgumentError, match="expected kernel_sizes"):
        F.unfold(x)
    with pytest.raises(InvalidArgumentError, match="paddings must be 1, 2 or 4"):
        F.unfold(x, 2, paddings=[1, 2, 3])
    with pytest.raises(ShapeError, match=r"x must have shape \(N, C \* 4, 3 \* 3\)"):
        F.fold(proa.ones([1, 4, 8]), 4, 2)


@pytest.mark.parametrize("axes", [2, 3])
def test_dropout_of_whole_channels(axes: int) -> None:
    drop = {2: F.dropout2d, 3: F.dropout3d}[axes]
    layer = {2: nn.Dropout2D, 3: nn.Dropout3D}[axes]
    last = {2: "NHWC", 3: "NDHWC"}[axes]
    x = np.ones((40, 50, *[2] * axes), np.float32)
    proa.seed(3)
    y = drop(proa.to_tensor(x), 0.25).numpy().reshape(40, 50, -1)
    np.testing.assert_array_equal(y, np.broadcast_to(y[..., :1], y.shape))
    np.testing.assert_allclose(np.unique(y), [0, 4 / 3], rtol=1e-6)
    assert abs((y[..., 0] == 0).mean() - 0.25) < 0.04
    y = drop(proa.to_tensor(channels_last(x)), 0.25, data_format=last).numpy()
    y = y.reshape(40, -1, 50)
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))
    result = layer(0.25)
    result.eval()
    same(result(proa.to_tensor(x)), x)
    same(drop(proa.to_tensor(x), 0.25, training=False), x)
    with pytest.raises(ShapeError, match=f"x must have rank {axes + 2}"):
        drop(proa.ones([2, 3]))


def test_recorded_with_an_unknown_batch() -> None:
    def all_of(x: Any) -> Any:
        u = F.unfold(x, 2)
        return (
            F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2), u,
            F.fold(u, [4, 6], 2),
        )  # fmt: skip

    x = proa.to_tensor(numbers(2, 4, 4, 6))
    spec = proa.static.InputSpec([None, 4, 4, 6], "float64")
    recorded = proa.jit.to_static(all_of, input_spec=[spec])
    for got, want in zip(recorded(x), all_of(x), strict=True):
        same(got, want.numpy())
