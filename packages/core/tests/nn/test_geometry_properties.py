"""Whatever the sizes, windows and borders: NumPy's result or an error of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import proa
from proa.errors import Error
from proa.nn import functional as F
from proa.vision import ops as V

from .reference import conv, conv_transpose, numbers, pool, resample, windows_of

SETTINGS = settings(max_examples=60, deadline=None)
SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=3)
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv1d_transpose, 2: F.conv2d_transpose, 3: F.conv3d_transpose}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@st.composite
def geometries(draw: Any) -> dict[str, Any]:
    """An input, kernels and what is between them; not all of it fits."""
    size = draw(SIZES)
    axes = len(size)
    each = st.lists(st.integers(0, 3), min_size=axes, max_size=axes)
    groups = draw(st.integers(0, 2))
    return {
        "size": size,
        "kernel": draw(each),
        "stride": draw(each),
        "padding": draw(st.lists(st.integers(-1, 2), min_size=axes, max_size=axes)),
        "dilation": draw(each),
        "groups": groups,
        "batch": draw(st.integers(0, 2)),
        "channels": max(groups, 1) * draw(st.integers(0, 2)),
    }


def fits(g: dict[str, Any]) -> bool:
    """True if there is at least one window and every number is admitted."""
    lows = zip(g["size"], g["kernel"], g["padding"], g["dilation"], strict=True)
    return (
        min(*g["kernel"], *g["stride"], *g["dilation"], g["groups"], g["channels"]) >= 1
        and min(g["padding"]) >= 0
        and all(n + 2 * p >= d * (k - 1) + 1 for n, k, p, d in lows)
    )


@SETTINGS
@example(
    {
        "size": [0, 0, 0],
        "kernel": [1, 1, 1],
        "stride": [1, 1, 1],
        "padding": [1, 1, 1],
        "dilation": [1, 1, 1],
        "groups": 1,
        "batch": 0,
        "channels": 1,
    }
)
@given(geometries())
def test_convolution(g: dict[str, Any]) -> None:
    axes, groups = len(g["size"]), max(g["groups"], 1)
    x = numbers(g["batch"], g["channels"], *g["size"])
    w = numbers(2 * groups, g["channels"] // groups, *g["kernel"])
    both = [p for p in g["padding"] for _ in range(2)]
    try:
        y = CONV[axes](
            proa.to_tensor(x), proa.to_tensor(w), None, g["stride"], g["padding"],
            g["dilation"], g["groups"],
        )  # fmt: skip
    except Error:
        assert not fits(g)
        return
    want = conv(x, w, g["stride"], both, g["dilation"], groups)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-9, atol=1e-9)


@SETTINGS
@given(geometries())
def test_transposed_convolution(g: dict[str, Any]) -> None:
    axes, groups = len(g["size"]), max(g["groups"], 1)
    x = numbers(g["batch"], g["channels"], *g["size"])
    w = numbers(g["channels"], 2, *g["kernel"])
    both = [p for p in g["padding"] for _ in range(2)]
    try:
        y = TRANSPOSE[axes](
            proa.to_tensor(x), proa.to_tensor(w), None, g["stride"], g["padding"],
            groups=g["groups"], dilation=g["dilation"],
        )  # fmt: skip
    except Error:
        return
    want = conv_transpose(x, w, g["stride"], both, g["dilation"], groups)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-9, atol=1e-9)


@SETTINGS
@given(geometries(), st.booleans())
def test_pooling(g: dict[str, Any], ceil: bool) -> None:
    axes = len(g["size"])
    x = numbers(g["batch"], g["channels"], *g["size"])
    t, args = proa.to_tensor(x), (g["kernel"], g["stride"], g["padding"])
    try:
        highest = MAX[axes](t, *args, ceil_mode=ceil)
    except Error:
        return
    windows = [
        windows_of(n, k, s, p, p, ceil)
        for n, k, s, p in zip(g["size"], *args, strict=True)
    ]
    flat = (*x.shape[:2], -1)
    if x.size:
        want = pool(x, windows, lambda part, at: part.reshape(flat).max(-1))
        np.testing.assert_array_equal(highest.numpy(), want)
        want = pool(x, windows, lambda part, at: part.reshape(flat).mean(-1))
        mean = AVG[axes](t, *args, ceil_mode=ceil)
        np.testing.assert_allclose(mean.numpy(), want, rtol=1e-9, atol=1e-9)
    assert highest.shape == [*x.shape[:2], *map(len, windows)]


@SETTINGS
@given(SIZES, st.sampled_from(["nearest", "linear", "cubic"]), st.data(), st.booleans())
def test_resizing(size: list[int], kind: str, data: Any, corners: bool) -> None:
    axes = len(size)
    modes = {"nearest": ["nearest"] * 3, "linear": ["linear", "bilinear", "trilinear"],
             "cubic": ["bicubic"] * 3}  # fmt: skip
    mode = modes[kind][axes - 1]
    new = data.draw(st.lists(st.integers(0, 8), min_size=axes, max_size=axes))
    x = numbers(2, 2, *size)
    try:
        y = F.interpolate(proa.to_tensor(x), new, None, mode, corners)
    except Error:
        bad = min(*size, *new) < 1 or (corners and kind == "nearest")
        assert bad or (kind == "cubic" and axes != 2)
        return
    want = x
    for i, (n, m) in enumerate(zip(size, new, strict=True)):
        half = 0.0 if corners or kind == "nearest" else 0.5
        ratio = ((n - 1) / (m - 1) if corners else n / m) if m > 1 else 0.0
        at = (np.arange(m) + half) * ratio - half
        if kind == "nearest":
            at = np.float32(ratio) * np.arange(m, dtype=np.float32)
        want = resample(want, 2 + i, at, kind)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6, atol=1e-6)


@SETTINGS
@given(
    st.integers(0, 3),
    st.lists(st.floats(width=32), min_size=12, max_size=12),
    st.integers(0, 3),
    st.sampled_from([V.roi_align, V.roi_pool, V.psroi_pool, V.prroi_pool]),
)
def test_regions_of_any_boxes(count: int, edges: Any, size: int, function: Any) -> None:
    x = proa.to_tensor(numbers(1, 4, 5, 6).astype(np.float32))
    boxes = np.asarray(edges, np.float32).reshape(3, 4)[:count].clip(-1e3, 1e3)
    num = proa.to_tensor(np.array([count], np.int32))
    try:
        y = function(x, proa.to_tensor(boxes), num, size)
    except Error:
        assert size not in (1, 2) or not np.isfinite(boxes).all()
        return
    assert y.shape == [
        count,
        4 // size**2 if function is V.psroi_pool else 4,
        size,
        size,
    ]


@SETTINGS
@given(st.lists(st.floats(width=64), min_size=12, max_size=12), st.data())
def test_any_points_of_a_grid(points: list[float], data: Any) -> None:
    x = proa.to_tensor(numbers(1, 2, 3, 4))
    grid = proa.to_tensor(np.reshape(points, (1, 2, 3, 2)))
    y = F.grid_sample(
        x, grid,
        data.draw(st.sampled_from(["bilinear", "nearest"])),
        data.draw(st.sampled_from(["zeros", "border", "reflection"])),
        data.draw(st.booleans()),
    )  # fmt: skip
    assert y.shape == [1, 2, 2, 3]
    assert np.isfinite(y.numpy()).all()
