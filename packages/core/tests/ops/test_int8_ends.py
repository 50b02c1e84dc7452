"""Int8 results are those of separately rounded float32 steps, however they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core

ACTS: dict[str, Any] = {
    "none": lambda v: v,
    "relu": lambda v: np.maximum(v, np.float32(0)),
    "relu6": lambda v: np.clip(v, np.float32(0), np.float32(6)),
    "hard_swish": lambda v: (
        v * np.clip(v + np.float32(3), np.float32(0), np.float32(6)) * np.float32(1 / 6)
    ),
}


def _wanted(sums: Any, scale: Any, bias: Any, residual: Any, act: str, by: Any) -> Any:
    """The results by NumPy; channels are the last axis."""
    v = sums.astype(np.float32) * scale + bias
    if residual is not None:
        v = v + residual.astype(np.float32) * np.float32(0.03)
    ratio = ACTS[act](v) / np.float32(by["out_scale"])
    zero = by.get("out_zero", 0)
    return np.clip(np.rint(ratio) + zero, by.get("low", -127), 127).astype(np.int8)


def _steps(rng: Any, sums: Any, out_scale: float) -> tuple[Any, Any]:
    """Multipliers and biases by channel; many quotients are halves and near them."""
    channels = sums.shape[-1]
    scale = rng.uniform(0.5, 2, channels).astype(np.float32)
    scale *= np.float32(60 * out_scale / np.abs(sums).max())
    scale[::3] = np.float32(out_scale / 2)
    bias = rng.uniform(-20, 20, channels).astype(np.float32) * np.float32(out_scale)
    bias[::3] = 0
    return scale, bias


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize("out_scale", [0.05, 0.0004])
@pytest.mark.parametrize("m", [8, 27, 131])
@pytest.mark.parametrize("n", [16, 24, 33, 100])
def test_products_end_as_defined(
    n: int, m: int, out_scale: float, adds: int, act: str
) -> None:
    rng = np.random.default_rng(n * m)
    x = rng.integers(-127, 128, (m, 20), dtype=np.int8)
    w = rng.integers(-127, 128, (20, n), dtype=np.int8)
    sums = x.astype(np.int64) @ w.astype(np.int64)
    scale, bias = _steps(rng, sums, out_scale)
    residual = rng.integers(-127, 128, (m, n), dtype=np.int8) if adds else None
    by = {"out_scale": out_scale, "out_zero": 3, "low": -128}
    got = _core.ops.linear_int8(
        proa.to_tensor(x), proa.to_tensor(w), proa.to_tensor(scale),
        proa.to_tensor(bias), None if residual is None else proa.to_tensor(residual),
        act=act, dtype="int8", residual_scale=0.03, **by,
    )  # fmt: skip
    want = _wanted(sums, scale, bias, residual, act, by)
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("act", ["relu6", "hard_swish"])
@pytest.mark.parametrize("window", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [8, 16, 24, 32, 40, 64, 72, 96, 120, 144])
def test_depthwise_windows_end_as_defined(
    channels: int, stride: int, window: int, act: str
) -> None:
    rng = np.random.default_rng(channels + stride)
    height, width, edge = 9, 21, window // 2
    x = rng.integers(-127, 128, (2, height, width, channels), dtype=np.int8)
    w = rng.integers(-127, 128, (channels, 1, window, window), dtype=np.int8)
    padded = np.pad(x.astype(np.int64), [(0, 0), (edge, edge), (edge, edge), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))
    windows = windows[:, ::stride, ::stride]
    sums = np.einsum("nhwcpq,cpq->nhwc", windows, w[:, 0].astype(np.int64))
    scale, bias = _steps(rng, sums, 0.02)
    by = {"out_scale": 0.02}
    got = _core.ops.conv2d_int8(
        proa.to_tensor(x).transpose([0, 3, 1, 2]), proa.to_tensor(w),
        proa.to_tensor(scale), proa.to_tensor(bias), None, stride=(stride, stride),
        padding=(edge,) * 4, dilation=(1, 1), groups=channels, act=act, dtype="int8",
        residual_scale=1.0, **by,
    )  # fmt: skip
    want = _wanted(sums, scale, bias, None, act, by)
    np.testing.assert_array_equal(got.numpy().transpose(0, 2, 3, 1), want)


# channels, height, width, window, strides, dilations, padding above and on the left
GEOMETRIES = [
    (16, 7, 150, (3, 3), (1, 1), (1, 1), (1, 1)),
    (32, 6, 131, (3, 3), (1, 1), (1, 1), (0, 0)),
    (48, 8, 70, (3, 3), (2, 2), (1, 1), (1, 1)),
    (80, 5, 37, (3, 3), (1, 2), (1, 1), (1, 1)),
    (5, 12, 33, (3, 5), (1, 1), (1, 1), (1, 2)),
    (96, 13, 64, (4, 3), (1, 1), (1, 1), (0, 1)),
    (72, 9, 41, (7, 7), (2, 2), (1, 1), (3, 3)),
    (200, 3, 4, (5, 5), (1, 1), (1, 1), (2, 2)),
    (20, 17, 30, (3, 3), (1, 1), (2, 2), (2, 2)),
    (33, 20, 19, (5, 2), (3, 3), (1, 2), (2, 1)),
    (17, 9, 50, (1, 9), (1, 4), (1, 1), (0, 4)),
    (64, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_depthwise_windows_of_any_geometry(geometry: Any) -> None:
    channels, height, width, window, stride, dilation, edge = geometry
    rng = np.random.default_rng(channels)
    x = rng.integers(-127, 128, (2, height, width, channels), dtype=np.int8)
    w = rng.integers(-127, 128, (channels, 1, *window), dtype=np.int8)
    sides = [(e, e) for e in edge]
    padded = np.pad(x.astype(np.int64), [(0, 0), *sides, (0, 0)])
    reach = [(n - 1) * d + 1 for n, d in zip(window, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (1, 2))
    windows = windows[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    sums = np.einsum("nhwcpq,cpq->nhwc", windows, w[:, 0].astype(np.int64))
    scale, bias = _steps(rng, sums, 0.02)
    got = _core.ops.conv2d_int8(
        proa.to_tensor(x).transpose([0, 3, 1, 2]), proa.to_tensor(w),
        proa.to_tensor(scale), proa.to_tensor(bias), None, stride=stride,
        padding=(edge[0], edge[0], edge[1], edge[1]), dilation=dilation,
        groups=channels, act="relu", dtype="int8", residual_scale=1.0, out_scale=0.02,
    )  # fmt: skip
    want = _wanted(sums, scale, bias, None, "relu", {"out_scale": 0.02})
    np.testing.assert_array_equal(got.numpy().transpose(0, 2, 3, 1), want)
