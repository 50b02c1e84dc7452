"""Pooling of one to three axes against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from proa.nn import functional as F

from .reference import (
    adaptive_windows,
    channels_last,
    numbers,
    pool,
    slopes_agree,
    windows_of,
)

LAST = {1: "NLC", 2: "NHWC", 3: "NDHWC"}
SIZE = (7, 6, 5)
AXES = pytest.mark.parametrize("axes", [1, 2, 3])


FUNCTIONS: dict[str, Any] = {
    "max_pool": (F.max_pool1d, F.max_pool2d, F.max_pool3d),
    "avg_pool": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
    "adaptive_max_pool": (
        F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d,
    ),
    "adaptive_avg_pool": (
        F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d,
    ),
    "max_unpool": (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d),
}  # fmt: skip
LAYERS: dict[str, Any] = {
    "MaxPool": (nn.MaxPool1D, nn.MaxPool2D, nn.MaxPool3D),
    "AvgPool": (nn.AvgPool1D, nn.AvgPool2D, nn.AvgPool3D),
    "AdaptiveMaxPool": (
        nn.AdaptiveMaxPool1D, nn.AdaptiveMaxPool2D, nn.AdaptiveMaxPool3D,
    ),
    "AdaptiveAvgPool": (
        nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D,
    ),
    "MaxUnPool": (nn.MaxUnPool1D, nn.MaxUnPool2D, nn.MaxUnPool3D),
}  # fmt: skip


def function(kind: str, axes: int) -> Any:
    return FUNCTIONS[kind][axes - 1]


def layer(kind: str, axes: int) -> Any:
    return LAYERS[kind][axes - 1]


def area(at: Any) -> int:
    return int(np.prod([s.stop - s.start for s in at]))


def greatest(part: Any, at: Any) -> Any:
    return part.reshape(*part.shape[:2], -1).max(-1)


def mean(part: Any, at: Any) -> Any:
    return part.reshape(*part.shape[:2], -1).sum(-1) / area(at)


def place(size: Any) -> Any:
    """The index of a window's maximum in a plane or volume of this size."""
    flat = np.arange(int(np.prod(size))).reshape(size)

    def find(part: Any, at: Any) -> Any:
        best = part.reshape(*part.shape[:2], -1).argmax(-1)
        return flat[at].reshape(-1)[best]

    return find


GEOMETRY = [
    ({"kernel_size": 2}, (2, 2, 0, 0, False)),
    ({"kernel_size": 3, "stride": 2, "padding": 1}, (3, 2, 1, 1, False)),
    ({"kernel_size": 3, "stride": 2, "ceil_mode": True}, (3, 2, 0, 0, True)),
    (
        {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
        (2, 2, 1, 1, True),
    ),
]


@AXES
@pytest.mark.parametrize(("given", "window"), GEOMETRY)
def test_max_pooling_and_its_mask(axes: int, given: Any, window: Any) -> None:
    x = numbers(2, 3, *SIZE[:axes])
    windows = [windows_of(n, *window) for n in SIZE[:axes]]
    want, where = pool(x, windows, greatest), pool(x, windows, place(SIZE[:axes]))
    f = function("max_pool", axes)
    np.testing.assert_array_equal(f(proa.to_tensor(x), **given).numpy(), want)
    y, mask = f(proa.to_tensor(x), **given, return_mask=True)
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(mask.numpy(), where)
    assert mask.dtype == "int32"
    result = layer("MaxPool", axes)(**given, return_mask=True)
    np.testing.assert_array_equal(result(proa.to_tensor(x))[1].numpy(), where)
    if axes > 1:
        y = f(proa.to_tensor(channels_last(x)), **given, data_format=LAST[axes])
        np.testing.assert_array_equal(y.numpy(), channels_last(want))


@AXES
@pytest.mark.parametrize(("given", "window"), GEOMETRY)
@pytest.mark.parametrize("exclusive", [True, False])
def test_average_pooling(axes: int, given: Any, window: Any, exclusive: bool) -> None:
    x = numbers(2, 3, *SIZE[:axes])
    windows = [windows_of(n, *window) for n in SIZE[:axes]]
    whole = window[0] ** axes
    want = pool(
        x, windows, lambda p, at: mean(p, at) * (1 if exclusive else area(at) / whole)
    )
    f = function("avg_pool", axes)
    got = f(proa.to_tensor(x), **given, exclusive=exclusive)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    got = layer("AvgPool", axes)(**given, exclusive=exclusive)(proa.to_tensor(x))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    if axes > 1:
        got = f(
            proa.to_tensor(channels_last(x)), **given, exclusive=exclusive,
            data_format=LAST[axes],
        )  # fmt: skip
        np.testing.assert_allclose(got.numpy(), channels_last(want), rtol=1e-12)
        got = f(proa.to_tensor(x), **given, divisor_override=5)
        sums = pool(x, windows, lambda p, at: mean(p, at) * area(at) / 5)
        np.testing.assert_allclose(got.numpy(), sums, rtol=1e-12, atol=1e-12)


@AXES
def test_adaptive_pooling(axes: int) -> None:
    x, size = numbers(2, 3, *SIZE[:axes]), [3, 2, 4][:axes]
    windows = [adaptive_windows(n, m) for n, m in zip(SIZE, size, strict=False)]
    given = size[0] if axes == 1 else size
    got = function("adaptive_avg_pool", axes)(proa.to_tensor(x), given)
    want = pool(x, windows, mean)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    result = layer("AdaptiveAvgPool", axes)(given)
    assert f"output_size={given}" in repr(result)
    np.testing.assert_allclose(result(proa.to_tensor(x)).numpy(), want, rtol=1e-12)
    f = function("adaptive_max_pool", axes)
    y, mask = f(proa.to_tensor(x), given, return_mask=True)
    np.testing.assert_array_equal(y.numpy(), pool(x, windows, greatest))
    np.testing.assert_array_equal(mask.numpy(), pool(x, windows, place(SIZE[:axes])))
    result = layer("AdaptiveMaxPool", axes)(given)
    np.testing.assert_array_equal(result(proa.to_tensor(x)).numpy(), y.numpy())
    if axes > 1:
        last = proa.to_tensor(channels_last(x))
        got = function("adaptive_avg_pool", axes)(last, given, data_format=LAST[axes])
        np.testing.assert_allclose(got.numpy(), channels_last(want), rtol=1e-12)
        partly = f(proa.to_tensor(x), [None, *[1] * (axes - 1)])
        assert partly.shape == [2, 3, SIZE[0], *[1] * (axes - 1)]


@AXES
@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
def test_gradients_to_second_order(axes: int, kind: str) -> None:
    x = numbers(1, 2, *(5, 4, 4)[:axes])
    f = function(kind, axes)
    slopes_agree(lambda x: f(x, 2, 1, 1), x)
    slopes_agree(lambda x: f(x, 3, 2, 0, ceil_mode=True), x)
    slopes_agree(lambda x: function(f"adaptive_{kind}", axes)(x, 2), x)


@AXES
def test_the_first_of_equals_is_taken_and_nan_wins(axes: int) -> None:
    x = np.zeros((1, 1, *[2] * axes))
    f = function("max_pool", axes)
    assert f(proa.to_tensor(x), 2, return_mask=True)[1].numpy().item() == 0
    x.reshape(-1)[-1] = np.nan
    y, mask = f(proa.to_tensor(x), 2, return_mask=True)
    assert np.isnan(y.numpy()).all()
    assert mask.numpy().item() == x.size - 1


@AXES
@pytest.mark.parametrize("padding", ["same", "valid", "pairs"])
def test_forms_of_padding(axes: int, padding: str) -> None:
    x = numbers(1, 2, *SIZE[:axes])
    edges = {"valid": (0, 0), "pairs": (1, 0)}
    windows = []
    for n in SIZE[:axes]:
        total = max((-(-n // 2) - 1) * 2 + 3 - n, 0)
        low, high = edges.get(padding, (total // 2, total - total // 2))
        windows.append(windows_of(n, 3, 2, low, high))
    given: Any = [[1, 0]] * axes if padding == "pairs" else padding
    got = function("max_pool", axes)(proa.to_tensor(x), 3, 2, given)
    np.testing.assert_array_equal(got.numpy(), pool(x, windows, greatest))


@AXES
def test_unpooling_puts_back_what_pooling_took(axes: int) -> None:
    size = [6, 4, 5][:axes]
    x = numbers(2, 3, *size)
    y, mask = function("max_pool", axes)(proa.to_tensor(x), 2, return_mask=True)
    want = np.zeros((2, 3, int(np.prod(size))))
    np.put_along_axis(
        want, mask.numpy().reshape(2, 3, -1), y.numpy().reshape(2, 3, -1), 2
    )
    f = function("max_unpool", axes)
    got = f(y, mask, 2, output_size=size)
    np.testing.assert_array_equal(got.numpy(), want.reshape(x.shape))
    result = layer("MaxUnPool", axes)(2, output_size=[2, 3, *size])
    np.testing.assert_array_equal(result(y, mask).numpy(), got.numpy())
    even = numbers(1, 2, *[6, 4, 4][:axes])
    found = function("max_pool", axes)(proa.to_tensor(even), 2, return_mask=True)
    assert f(*found, 2).shape == list(even.shape)
    slopes_agree(lambda y: f(y, mask, 2, output_size=size), y.numpy())
    with pytest.raises(ShapeError, match="indices must have shape"):
        f(y, mask[:1], 2)
    with pytest.raises(OutOfRangeError):
        f(y, mask + 1000, 2)


@pytest.mark.feature("L078")
def test_pool3d_has_default_stride_and_padding() -> None:
    x = proa.to_tensor(numbers(1, 1, 4, 4, 4))
    assert nn.MaxPool3D(2)(x).shape == [1, 1, 2, 2, 2]
    assert nn.AvgPool3D(kernel_size=2)(x).shape == [1, 1, 2, 2, 2]
    assert "stride=None, padding=0" in repr(nn.MaxPool3D(2))


@pytest.mark.feature("L087")
def test_adaptive_average_of_float16_does_not_lose_small_terms() -> None:
    # 1 + 4095 / 2048: a sum kept in float16 would stop growing at 2048.
    x = np.ones((1, 2, 64, 64), np.float16)
    x[:, 1] = 0.125
    y = F.adaptive_avg_pool2d(proa.to_tensor(x), 1)
    assert y.dtype == "float16"
    np.testing.assert_array_equal(y.numpy().reshape(-1), [1.0, 0.125])
    x = numbers(2, 3, 9, 7).astype(np.float16)
    windows = [adaptive_windows(9, 4), adaptive_windows(7, 3)]
    want = pool(x.astype(np.float64), windows, mean)
    got = F.adaptive_avg_pool2d(proa.to_tensor(x), [4, 3]).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@AXES
def test_recorded_with_an_unknown_batch(axes: int) -> None:
    def pools(x: Any) -> Any:
        y, mask = function("max_pool", axes)(x, 2, return_mask=True)
        mean = function("avg_pool", axes)(x, 2)
        small = function("adaptive_avg_pool", axes)(x, 2)
        return y, mask, mean, small, function("adaptive_max_pool", axes)(x, 2)

    x = proa.to_tensor(numbers(3, 2, *SIZE[:axes]))
    spec = proa.static.InputSpec([None, 2, *SIZE[:axes]], "float64")
    recorded = proa.jit.to_static(pools, input_spec=[spec])
    for got, want in zip(recorded(x), pools(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


@AXES
def test_errors_name_the_requirement(axes: int) -> None:
    x = proa.to_tensor(numbers(1, 2, *SIZE[:axes]))
    f = function("max_pool", axes)
    with pytest.raises(InvalidArgumentError, match="padding must be less than"):
        f(x, 2, padding=2)
    with pytest.raises(ShapeError, match=rf"x must have rank {axes + 2}"):
        f(x[0], 2)
    with pytest.raises(InvalidArgumentError, match="kernel_size must be one number or"):
        f(x, [2] * (axes + 1))
    with pytest.raises(InvalidArgumentError, match="output_size must be"):
        function("adaptive_avg_pool", axes)(x, [2] * 4)
    with pytest.raises(InvalidArgumentError, match="output_size must be positive"):
        function("adaptive_max_pool", axes)(x, 0)
    if axes > 1:
        with pytest.raises(InvalidArgumentError, match="divisor_override must not be"):
            function("avg_pool", axes)(x, 2, divisor_override=0)


@AXES
def test_windows_of_nothing_are_refused(axes: int) -> None:
    empty = proa.zeros([1, 2, *[3] * (axes - 1), 0])
    for kind in ("max_pool", "avg_pool"):
        with pytest.raises(InvalidArgumentError):
            function(kind, axes)(empty, 2, padding=1)
        with pytest.raises(InvalidArgumentError):
            function(f"adaptive_{kind}", axes)(empty, 2)
        with pytest.raises(InvalidArgumentError, match="stride must be"):
            function(kind, axes)(empty, 2, 0)
    none = proa.zeros([0, 2, *[3] * axes])
    assert F.max_pool2d(proa.zeros([0, 2, 3, 3]), 2).shape == [0, 2, 1, 1]
    assert function("adaptive_max_pool", axes)(none, 2).shape == [0, 2, *[2] * axes]
