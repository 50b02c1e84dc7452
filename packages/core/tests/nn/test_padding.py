"""Padding in every mode and format against np.pad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from .reference import channels_last, numbers, slopes_agree

NUMPY = {
    "constant": "constant", "reflect": "reflect", "replicate": "edge",
    "circular": "wrap",
}  # fmt: skip
FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
LAYER = {1: nn.Pad1D, 2: nn.Pad2D, 3: nn.Pad3D}
AMOUNT = [1, 2, 0, 3, 2, 1]  # of the last axis, of the one before, ..
AXES = pytest.mark.parametrize("axes", [1, 2, 3])
MODE = pytest.mark.parametrize("mode", NUMPY)


def padded(x: Any, amount: list[int], mode: str, value: float = 0.0) -> Any:
    axes = x.ndim - 2
    spatial = [tuple(amount[2 * i : 2 * i + 2]) for i in reversed(range(axes))]
    how: Any = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, [(0, 0), (0, 0), *spatial], mode=NUMPY[mode], **how)  # type: ignore[call-overload]


@AXES
@MODE
def test_every_mode_in_both_formats(axes: int, mode: str) -> None:
    x, amount = numbers(2, 3, *(5, 4, 6)[:axes]), AMOUNT[: 2 * axes]
    want = padded(x, amount, mode, 7.0)
    first, last = FORMATS[axes]
    got = F.pad(proa.to_tensor(x), amount, mode, 7.0, first)
    np.testing.assert_array_equal(got.numpy(), want)
    got = F.pad(proa.to_tensor(x), proa.to_tensor(amount), mode, 7.0)
    np.testing.assert_array_equal(got.numpy(), want)
    got = F.pad(proa.to_tensor(channels_last(x)), amount, mode, 7.0, last)
    np.testing.assert_array_equal(got.numpy(), channels_last(want))
    layer = LAYER[axes](amount, mode, 7.0)
    np.testing.assert_array_equal(layer(proa.to_tensor(x)).numpy(), want)
    layer = LAYER[axes](1, mode, data_format=last)
    got = layer(proa.to_tensor(channels_last(x))).numpy()
    np.testing.assert_array_equal(got, channels_last(padded(x, [1] * 6, mode)))
    assert f"padding={[1] * 2 * axes}, mode={mode}" in repr(layer)


@AXES
@MODE
def test_gradients_to_second_order(axes: int, mode: str) -> None:
    x = numbers(1, 2, *(4, 4, 3)[:axes])
    slopes_agree(lambda x: F.pad(x, AMOUNT[: 2 * axes], mode), x)


def test_a_pair_for_every_axis_begins_with_the_first() -> None:
    x = numbers(2, 3)
    got = F.pad(proa.to_tensor(x), [1, 0, 0, 2], value=-1.0)
    want = np.pad(x, ((1, 0), (0, 2)), constant_values=-1.0)
    np.testing.assert_array_equal(got.numpy(), want)
    x = numbers(1, 2, 3, 4)
    got = F.pad(proa.to_tensor(x), [0, 0, 1, 1, 0, 0, 2, 2])
    want = np.pad(x, ((0, 0), (1, 1), (0, 0), (2, 2)))
    np.testing.assert_array_equal(got.numpy(), want)


def test_negative_numbers_crop_and_integers_stay_integers() -> None:
    x = np.arange(12).reshape(1, 1, 3, 4)
    got = F.pad(proa.to_tensor(x), [-1, 1, 0, -1], value=9)
    np.testing.assert_array_equal(got.numpy()[0, 0], [[1, 2, 3, 9], [5, 6, 7, 9]])
    assert got.dtype == "int64"


def test_zeropad2d() -> None:
    x = numbers(1, 2, 3, 4)
    want = padded(x, [1, 2, 3, 0], "constant")
    got = F.zeropad2d(proa.to_tensor(x), [1, 2, 3, 0])
    np.testing.assert_array_equal(got.numpy(), want)
    got = nn.ZeroPad2D([1, 2, 3, 0], "NHWC")(proa.to_tensor(channels_last(x)))
    np.testing.assert_array_equal(got.numpy(), channels_last(want))


@MODE
def test_recorded_with_unknown_sizes(mode: str) -> None:
    x = proa.to_tensor(numbers(2, 3, 5, 4))
    spec = proa.static.InputSpec([None, 3, None, None], "float64")

    def pad(x: Any) -> Any:
        return F.pad(x, [1, 2, 0, 1], mode)

    got = proa.jit.to_static(pad, input_spec=[spec])(x)
    np.testing.assert_array_equal(got.numpy(), pad(x).numpy())


def test_errors_name_the_requirement() -> None:
    x = proa.ones([1, 2, 3, 4])
    with pytest.raises(InvalidArgumentError, match="mode must be one of"):
        F.pad(x, [1] * 4, "edge")
    with pytest.raises(InvalidArgumentError, match="data_format must be one of"):
        F.pad(x, [1] * 4, data_format="NCL")
    with pytest.raises(ShapeError, match=r"pad must have 4 numbers for rank 4, got"):
        F.pad(x, [1] * 6)
    with pytest.raises(ShapeError, match="an axis must have 5 elements"):
        F.pad(x, [4, 0, 0, 0], "reflect")
    with pytest.raises(ShapeError, match="an axis must have 5 elements"):
        F.pad(x, [5, 0, 0, 0], "circular")
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        F.pad(x, [-1, 0, 0, 0], "replicate")
    with pytest.raises(ShapeError, match="x must have rank 3, 4 or 5"):
        F.pad(proa.ones([2, 3]), [1, 1])
