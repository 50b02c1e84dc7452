"""Records of quantization: integers match exactly, float32 is NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case
from .conv import conv2d


def _scale(x: Any, scale: Any, axis: int) -> Any:
    if scale.size == 1:
        return np.float32(scale.reshape(-1)[0])
    shape = [1] * x.ndim
    shape[axis] = -1
    return scale.astype(np.float32).reshape(shape)


def _quantized(x: Any, scale: Any, axis: int) -> Any:
    ratio = x.astype(np.float32) / _scale(x, scale, axis)
    return np.clip(np.rint(ratio), -127, 127).astype(np.int8)


def _end(
    acc: Any, multiplier: Any, bias: Any, act: str, out_scale: float, dtype: str
) -> Any:
    """The epilogue of the int8 products; product and sum are rounded one by one."""
    v = acc.astype(np.float32) * multiplier.astype(np.float32)
    if bias is not None:
        v = v + bias.astype(np.float32)
    if act == "relu":
        v = np.maximum(v, np.float32(0))
    if dtype == "float32":
        return v
    return np.clip(np.rint(v / np.float32(out_scale)), -127, 127).astype(np.int8)


def _linear_int8(
    x: Any,
    w: Any,
    multiplier: Any,
    bias: Any = None,
    *,
    act: str = "none",
    out_scale: float = 0.0,
    dtype: str,
) -> Any:
    acc = x.astype(np.int64) @ w.astype(np.int64)
    return _end(acc, multiplier, bias, act, out_scale, dtype)


def _conv2d_int8(
    x: Any,
    w: Any,
    multiplier: Any,
    bias: Any = None,
    *,
    act: str = "none",
    out_scale: float = 0.0,
    dtype: str,
    **geometry: Any,
) -> Any:
    acc = conv2d(x.astype(np.int64), w.astype(np.int64), **geometry)

    def over(v: Any) -> Any:
        return None if v is None else v.reshape(-1, 1, 1)

    return _end(acc, over(multiplier), over(bias), act, out_scale, dtype)


def _int8(*shape: int) -> Any:
    return lambda rng: rng.integers(-127, 128, shape).astype(np.int8)


def _f32(low: float, high: float, *shape: int) -> Any:
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


_PER_CHANNEL = _f32(0.01, 0.05, 3)
_ONE = np.array([0.015625], np.float32)

Sample(
    "quantize",
    ref=lambda x, scale, *, axis=-1: _quantized(x, scale, axis),
    cases=[
        case((2, 3, 4), _PER_CHANNEL, axis=1),
        case((5, 7), _ONE),
        case((), _ONE),
        case((0, 3), _PER_CHANNEL, axis=1),
    ],
)
Sample(
    "dequantize",
    ref=lambda x, scale, *, axis=-1: x.astype(np.float32) * _scale(x, scale, axis),
    cases=[case(_int8(2, 3, 4), _PER_CHANNEL, axis=1), case(_int8(5, 7), _ONE)],
    dtypes=("int8",),
)
Sample(
    "fake_quant",
    ref=lambda x, scale, *, axis=-1: (
        _quantized(x, scale, axis).astype(np.float32) * _scale(x, scale, axis)
    ),
    cases=[case((2, 3, 4), _PER_CHANNEL, axis=1), case((5, 7), _ONE)],
    grad=False,  # straight through: not what a finite difference sees
)
Sample(
    "fake_quant_grad",
    ref=lambda dy, x, scale, *, axis=-1: np.where(
        np.abs(x) <= np.float32(127) * _scale(x, scale, axis), dy, 0
    ),
    cases=[
        case((2, 3, 4), (2, 3, 4), _PER_CHANNEL, axis=1),
        case((5, 7), (5, 7), _ONE),
    ],
    grad=False,
)
Sample(
    "linear_int8",
    ref=_linear_int8,
    cases=[
        case(
            _int8(3, 37),
            _int8(37, 5),
            _f32(0, 1e-3, 5),
            _f32(-1, 1, 5),
            act=act,
            out_scale=0.02,
            dtype=dtype,
        )
        for act in ("none", "relu")
        for dtype in ("float32", "int8")
    ]
    + [case(_int8(2, 1500), _int8(1500, 20), _f32(0, 1e-3, 20), None, dtype="float32")],
    dtypes=("int8",),
    rtol={"float32": 0.0},
    atol={"float32": 0.0},
)
Sample(
    "conv2d_int8",
    ref=_conv2d_int8,
    cases=[
        case(
            _int8(2, 4, 7, 6),
            _int8(6, 4 // groups, 3, 2),
            _f32(0, 1e-3, 6),
            _f32(-1, 1, 6),
            stride=[2, 1],
            padding=[1, 0, 1, 1],
            groups=groups,
            act="relu",
            out_scale=0.02,
            dtype=dtype,
        )
        for groups in (1, 2)
        for dtype in ("float32", "int8")
    ],
    dtypes=("int8",),
    rtol={"float32": 0.0},
    atol={"float32": 0.0},
)
