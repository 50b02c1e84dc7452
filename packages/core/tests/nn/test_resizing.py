"""interpolate in every mode against NumPy, axis by axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from .reference import (
    adaptive_windows,
    channels_last,
    numbers,
    pool,
    resample,
    slopes_agree,
)

SIZE, NEW = (5, 4, 6), (8, 3, 7)
LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
#: Mode, number of axes, and what each axis is resampled by.
MODES = [
    ("nearest", 1, "nearest"), ("nearest", 2, "nearest"), ("nearest", 3, "nearest"),
    ("linear", 1, "linear"), ("bilinear", 2, "linear"), ("trilinear", 3, "linear"),
    ("bicubic", 2, "cubic"),
]  # fmt: skip
EVERY = pytest.mark.parametrize(("mode", "axes", "kind"), MODES)


def places(n: int, m: int, kind: str, how: str, scale: float = 0) -> Any:
    """The positions of the m new elements."""
    at, ratio = np.arange(m), 1 / scale if scale else n / m
    if how == "corners":
        return at * ((n - 1) / (m - 1) if m > 1 else 0.0)
    if kind == "nearest" or how == "mode 1":
        return at * (ratio if m > 1 else 0.0)
    return (at + 0.5) * (ratio if m > 1 else 0.0) - 0.5


def resized(x: Any, new: Any, kind: str, how: str = "", scale: Any = None) -> Any:
    for i, m in enumerate(new):
        f = scale[i] if scale is not None else 0
        at = places(x.shape[2 + i], m, kind, how, f)
        x = resample(x, 2 + i, at, kind)
    return x


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.feature("L098")
@EVERY
def test_to_a_size_in_both_formats(mode: str, axes: int, kind: str) -> None:
    x = numbers(2, 3, *SIZE[:axes])
    want = resized(x, NEW[:axes], kind)
    new = list(NEW[:axes])
    close(F.interpolate(proa.to_tensor(x), new, mode=mode), want)
    close(F.upsample(proa.to_tensor(x), proa.to_tensor(new), mode=mode.upper()), want)
    got = F.interpolate(
        proa.to_tensor(channels_last(x)), new, mode=mode, data_format=LAST[axes]
    )
    close(got, channels_last(want))
    upsample = nn.Upsample(new, mode=mode)
    close(upsample(proa.to_tensor(x)), want)
    assert f"size={new}, mode={mode}" in repr(upsample)


@EVERY
@pytest.mark.parametrize("factor", [2, 1.7, 0.6])
def test_by_a_factor(mode: str, axes: int, kind: str, factor: float) -> None:
    x = numbers(2, 3, *SIZE[:axes])
    new = [int(n * factor) for n in SIZE[:axes]]
    want = resized(x, new, kind, scale=[factor] * axes)
    for given in (factor, [factor] * axes, proa.to_tensor([factor], dtype="float64")):
        close(F.interpolate(proa.to_tensor(x), None, given, mode), want)


@pytest.mark.parametrize(
    ("mode", "axes", "kind", "how"),
    [
        (*mode, how)
        for mode in MODES
        for how in ("corners", "mode 1")
        if mode[2] == "linear" or (mode[2] == "cubic" and how == "corners")
    ],
)
def test_the_other_places(mode: str, axes: int, kind: str, how: str) -> None:
    x = numbers(2, 3, *SIZE[:axes])
    got = F.interpolate(
        proa.to_tensor(x), list(NEW[:axes]), None, mode, how == "corners",
        int(how == "mode 1"),
    )  # fmt: skip
    close(got, resized(x, NEW[:axes], kind, how))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_area_is_the_mean_over_windows(axes: int) -> None:
    x, new = numbers(2, 3, *SIZE[:axes]), [3, 2, 4][:axes]
    windows = [adaptive_windows(n, m) for n, m in zip(SIZE, new, strict=False)]
    means = pool(x, windows, lambda p, at: p.reshape(*p.shape[:2], -1).mean(-1))
    close(F.interpolate(proa.to_tensor(x), new, mode="area"), means)
    last = proa.to_tensor(channels_last(x))
    got = F.interpolate(last, new, mode="area", data_format=LAST[axes])
    close(got, channels_last(means))
    half = F.interpolate(proa.to_tensor(x), None, 0.5, mode="area")
    assert half.shape == [2, 3, *[n // 2 for n in SIZE[:axes]]]


@EVERY
def test_gradients_to_second_order(mode: str, axes: int, kind: str) -> None:
    x = numbers(1, 2, *(3, 4, 2)[:axes])
    new = [5, 3, 4][:axes]
    slopes_agree(lambda x: F.interpolate(x, new, mode=mode), x)


@pytest.mark.feature("L102")
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "bool"])
def test_nearest_takes_integers(dtype: str) -> None:
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(dtype)
    y = F.interpolate(proa.to_tensor(x), [8, 3], mode="nearest")
    assert y.dtype == dtype
    rows, cols = np.arange(8) // 2, (np.arange(3) * 5) // 3
    np.testing.assert_array_equal(y.numpy(), x[:, :, rows][..., cols])
    big = proa.to_tensor(np.array([[[2**62 + 1, 3]]]))
    assert F.interpolate(big, 4).numpy().ravel().tolist() == [2**62 + 1] * 2 + [3] * 2


@EVERY
def test_a_nan_stays_where_it_has_a_part(mode: str, axes: int, kind: str) -> None:
    x = np.zeros((1, 1, *[5] * axes))
    x[(0, 0, *[2] * axes)] = np.nan
    corners = kind != "nearest"
    same = F.interpolate(proa.to_tensor(x), [5] * axes, None, mode, corners).numpy()
    np.testing.assert_array_equal(np.isnan(same), np.isnan(x))
    wide = F.interpolate(proa.to_tensor(x), [9] * axes, None, mode, corners).numpy()
    sampled = wide[(0, 0, *[slice(None, None, 2)] * axes)]
    np.testing.assert_array_equal(np.isnan(sampled), np.isnan(x[0, 0]))


def test_layers_of_images() -> None:
    x = numbers(1, 2, 4, 5)
    close(
        nn.UpsamplingNearest2D(scale_factor=2)(proa.to_tensor(x)),
        x.repeat(2, 2).repeat(2, 3),
    )
    got = nn.UpsamplingBilinear2D([7, 9])(proa.to_tensor(x))
    close(got, resized(x, (7, 9), "linear", "corners"))
    assert "mode=bilinear" in repr(nn.UpsamplingBilinear2D([7, 9]))


@EVERY
def test_recorded_with_unknown_sizes(mode: str, axes: int, kind: str) -> None:
    def double(x: Any) -> Any:
        return F.interpolate(x, None, 2.0, mode)

    x = proa.to_tensor(numbers(2, 3, *SIZE[:axes]))
    spec = proa.static.InputSpec([None, 3, *[None] * axes], "float64")
    recorded = proa.jit.to_static(double, input_spec=[spec])
    np.testing.assert_allclose(recorded(x).numpy(), double(x).numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": [2, 2], "mode": "cubic"}, "mode must be one of"),
        ({"size": [2, 2], "scale_factor": 2}, "either size or scale_factor"),
        ({}, "either size or scale_factor"),
        ({"size": [2]}, None),
        ({"size": [2, 2, 2]}, "size must be positive, one number or 2"),
        ({"size": [2, 0]}, "size must be positive"),
        ({"scale_factor": -1.0}, "scale_factor must be positive"),
        ({"size": [2, 2], "align_corners": True}, "align_corners must be False"),
        ({"size": [2, 2], "mode": "bilinear", "align_mode": 2}, "align_mode must be"),
        ({"size": [2, 2], "data_format": "HWC"}, "data_format must be one of"),
    ],
)
def test_errors_name_the_requirement(given: Any, message: str | None) -> None:
    x = proa.ones([1, 1, 4, 4])
    if message is None:
        assert F.interpolate(x, **given).shape == [1, 1, 2, 2]
        return
    with pytest.raises(InvalidArgumentError, match=rf"\[interpolate\] .*{message}"):
        F.interpolate(x, **given)


def test_modes_take_their_ranks_and_dtypes() -> None:
    with pytest.raises(ShapeError, match="bilinear takes x of rank 4"):
        F.interpolate(proa.ones([1, 1, 4]), 2, mode="bilinear")
    with pytest.raises(InvalidArgumentError, match="bilinear takes floating x"):
        F.interpolate(proa.ones([1, 1, 4, 4], "int32"), 2, mode="bilinear")
