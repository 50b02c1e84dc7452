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


_ACTS = {
    "none": lambda v: v,
    "relu": lambda v: np.maximum(v, np.float32(0)),
    "relu6": lambda v: np.clip(v, np.float32(0), np.float32(6)),
    "hard_swish": lambda v: (
        v * np.clip(v + np.float32(3), np.float32(0), np.float32(6)) * np.float32(1 / 6)
    ),
}


def _end(
    acc: Any, multiplier: Any, bias: Any, residual: Any, act: str, out_scale: float,
    dtype: str, residual_scale: float,
) -> Any:  # fmt: skip
    """The epilogue of the int8 products; products and sums are rounded one by one."""
    v = acc.astype(np.float32) * multiplier.astype(np.float32)
    if bias is not None:
        v = v + bias.astype(np.float32)
    if residual is not None:
        whole = residual.dtype == np.int8
        steps = np.float32(residual_scale if whole else 1.0)
        v = v + residual.astype(np.float32) * steps
    v = _ACTS[act](v)
    if dtype == "float32":
        return v
    return np.clip(np.rint(v / np.float32(out_scale)), -127, 127).astype(np.int8)


def _linear_int8(
    x: Any,
    w: Any,
    multiplier: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    act: str = "none",
    out_scale: float = 0.0,
    dtype: str,
    residual_scale: float = 1.0,
) -> Any:
    acc = x.astype(np.int64) @ w.astype(np.int64)
    return _end(acc, multiplier, bias, residual, act, out_scale, dtype, residual_scale)


def _conv2d_int8(
    x: Any,
    w: Any,
    multiplier: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    act: str = "none",
    out_scale: float = 0.0,
    dtype: str,
    residual_scale: float = 1.0,
    **geometry: Any,
) -> Any:
    acc = conv2d(x.astype(np.int64), w.astype(np.int64), **geometry)

    def over(v: Any) -> Any:
        return None if v is None else v.reshape(-1, 1, 1)

    return _end(
        acc, over(multiplier), over(bias), residual, act, out_scale, dtype,
        residual_scale,
    )  # fmt: skip


def _int8(*shape: int) -> Any:
    return lambda rng: rng.integers(-127, 128, shape).astype(np.int8)


def _f32(low: float, high: float, *shape: int) -> Any:
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


def _powers_of_two(*shape: int) -> Any:
    """Multipliers with which also sums of products in float32 are exact."""
    return lambda rng: np.ldexp(np.float32(1), rng.integers(-14, -9, shape))


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
    + [case(_int8(2, 1500), _int8(1500, 20), _powers_of_two(20), None, dtype="float32")]
    + [
        case(
            _int8(5, 33),
            _int8(33, 50),
            _f32(0, 1e-3, 50),
            _f32(-1, 1, 50),
            residual,
            act=act,
            out_scale=0.03,
            dtype=dtype,
            residual_scale=0.02,
        )
        for residual in (_int8(5, 50), _f32(-3, 3, 5, 50))
        for act in ("none", "relu6", "hard_swish")
        for dtype in ("float32", "int8")
    ],
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
    ]
    + [
        case(
            _int8(2, channels, 9, 11),
            _int8(channels, 1, taps, taps),
            _f32(0, 1e-3, channels),
            _f32(-1, 1, channels),
            residual,
            stride=[stride, stride],
            padding=[taps // 2] * 4,
            groups=channels,
            act=act,
            out_scale=0.03,
            dtype=dtype,
            residual_scale=0.02,
        )
        for channels, taps, stride, act, residual, dtype in (
            (96, 3, 1, "relu6", None, "int8"),
            (96, 3, 2, "relu6", None, "int8"),
            (72, 5, 2, "hard_swish", None, "int8"),
            (200, 5, 1, "none", None, "int8"),
            (16, 3, 1, "relu", _int8(2, 16, 9, 11), "int8"),
            (16, 5, 1, "hard_swish", None, "int8"),
            (24, 3, 1, "none", None, "int8"),
            (32, 3, 1, "relu6", None, "int8"),
            (5, 3, 1, "none", None, "float32"),
            (65, 3, 1, "none", _f32(-3, 3, 2, 65, 9, 11), "float32"),
        )
    ]
    + [
        case(
            _int8(2, 24, 5, 6),
            _int8(40, 24 // groups, 1, 1),
            _f32(0, 1e-3, 40),
            None,
            residual,
            groups=groups,
            act="relu6",
            out_scale=0.03,
            dtype=dtype,
            residual_scale=0.02,
        )
        for groups in (1, 2)
        for residual in (_int8(2, 40, 5, 6), _f32(-3, 3, 2, 40, 5, 6))
        for dtype in ("float32", "int8")
    ],
    dtypes=("int8",),
    rtol={"float32": 0.0},
    atol={"float32": 0.0},
)


def _gate_int8(x: Any, gate: Any, *, x_scale: float, out_scale: float) -> Any:
    v = x.astype(np.float32) * np.float32(x_scale) * gate.astype(np.float32)
    return np.clip(np.rint(v / np.float32(out_scale)), -127, 127).astype(np.int8)


def _mean_int8(x: Any, *, scale: float) -> Any:
    sums = x.astype(np.int64).sum(axis=(2, 3), keepdims=True)
    factor = np.float32(scale / (x.shape[2] * x.shape[3]))
    return sums.astype(np.float32) * factor


Sample(
    "gate_int8",
    ref=_gate_int8,
    cases=[
        case(_int8(n, c, 3, 5), _f32(0, 1, n, c, 1, 1), x_scale=0.03, out_scale=0.02)
        for n, c in ((2, 5), (1, 64), (2, 70), (0, 3))
    ],
    dtypes=("int8",),
)
Sample(
    "mean_int8",
    ref=_mean_int8,
    cases=[
        case(_int8(n, c, 3, 5), scale=0.03)
        for n, c in ((2, 5), (1, 64), (2, 150), (0, 3))
    ],
    dtypes=("int8",),
    rtol={"float32": 0.0},
    atol={"float32": 0.0},
)


def _affine(v: Any, scale: float, zero: int, low: int) -> Any:
    whole = np.rint(v / np.float32(scale)) + np.float32(zero)
    return np.clip(whole, low, 127).astype(np.int8)


def _binary(combine: Any) -> Any:
    def ref(
        x: Any, y: Any, *, x_scale: float, y_scale: float, out_scale: float,
        x_zero: int = 0, y_zero: int = 0, out_zero: int = 0, low: int = -128,
    ) -> Any:  # fmt: skip
        a = (x.astype(np.float32) - np.float32(x_zero)) * np.float32(x_scale)
        b = (y.astype(np.float32) - np.float32(y_zero)) * np.float32(y_scale)
        return _affine(combine(a, b), out_scale, out_zero, low)

    return ref


_BINARY_CASES = [
    case(_int8(3, 5, 7), _int8(3, 5, 7), x_scale=0.02, y_scale=0.05, out_scale=0.06),
    case(
        _int8(2, 300), _int8(2, 300), x_scale=0.02, x_zero=-128, y_scale=0.01,
        y_zero=17, out_scale=0.03, out_zero=-20, low=-20,
    ),
    case(_int8(0, 3), _int8(0, 3), x_scale=1.0, y_scale=1.0, out_scale=1.0),
]  # fmt: skip
Sample(
    "quantize_affine",
    ref=lambda x, scale, *, zero_point, low=-128: _affine(
        x.astype(np.float32), scale.reshape(-1)[0], zero_point, low
    ),
    cases=[
        case((2, 3, 4), _ONE, zero_point=-128),
        case((5, 300), _ONE, zero_point=7),
        case((5, 7), _ONE, zero_point=-20, low=-20),
        case((), _ONE, zero_point=0, low=-127),
    ],
)
Sample("add_int8", ref=_binary(np.add), cases=_BINARY_CASES, dtypes=("int8",))
Sample("mul_int8", ref=_binary(np.multiply), cases=_BINARY_CASES, dtypes=("int8",))


def _linear_dynamic(
    x: Any, w: Any, scale: Any, bias: Any = None, *, act: str = "none",
    per_row: bool = True, symmetric: bool = True,
) -> Any:  # fmt: skip
    x = x.astype(np.float32)
    axes = -1 if per_row else None
    high = np.maximum(x.max(axes, keepdims=True, initial=0), np.float32(0))
    low = np.minimum(x.min(axes, keepdims=True, initial=0), np.float32(0))
    width = np.maximum(high, -low) if symmetric else high - low
    step = (width / np.float32(127 if symmetric else 255)).astype(np.float32)
    step = np.where(step > 0, step, np.float32(1))
    if symmetric:
        whole = np.clip(np.rint(x / step), -127, 127)
    else:
        zero = np.clip(np.rint(-low / step), 0, 255)
        whole = np.clip(np.rint(x / step) + zero, 0, 255) - zero
    acc = whole.astype(np.int64) @ w.astype(np.int64)
    v = acc.astype(np.float32) * (scale.astype(np.float32) * step)
    return _ACTS[act](v if bias is None else v + bias.astype(np.float32))


def _floats(v: Any) -> Any:
    """A strided or widened copy of it is the same numbers."""
    return np.asarray(v, np.float32)


def _unpacked(w: Any, bits: int, depth: int) -> Any:
    """The integers (out, depth) in bytes."""
    if bits == 4:
        w = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1)
    return w[:, :depth].astype(np.float32)


def _linear_weight_only(
    x: Any, w: Any, scale: Any, zero: Any = None, bias: Any = None, *, bits: int,
    group: int, act: str = "none",
) -> Any:  # fmt: skip
    depth = x.shape[-1]
    at = np.arange(depth) // group
    zeros = 2.0 ** (bits - 1) if zero is None else zero.astype(np.float32)[:, at]
    real = (_unpacked(w, bits, depth) - zeros) * _floats(scale)[:, at]
    y = x.astype(np.float64) @ real.astype(np.float32).astype(np.float64).T
    return _ACTS[act](y if bias is None else y + bias.astype(np.float64))


def _bytes(*shape: int) -> Any:
    return lambda rng: rng.integers(0, 256, shape).astype(np.uint8)


Sample(
    "linear_dynamic",
    ref=_linear_dynamic,
    cases=[
        case(
            shape, _int8(shape[-1], out), _f32(0, 1e-2, out), bias, act=act,
            per_row=per_row, symmetric=symmetric,
        )
        for shape, out, bias, act in (
            ((3, 37), 5, _f32(-1, 1, 5), "none"),
            ((2, 9, 300), 70, _f32(-1, 1, 70), "relu"),
            ((1, 64), 33, None, "hard_swish"),
            ((0, 8), 4, None, "none"),
        )
        for per_row in (True, False)
        for symmetric in (True, False)
    ],
    rtol={"float32": 1e-6},
    atol={"float32": 1e-6},
    grad=False,
)  # fmt: skip
Sample(
    "linear_weight_only",
    ref=_linear_weight_only,
    cases=[
        case(
            (*rows, depth), _bytes(out, groups * group * bits // 8),
            _f32(5e-4, 5e-3, out, groups),
            zero(out, groups), bias, bits=bits,
            group=group, act=act,
        )
        for bits in (4, 8)
        for rows, depth, out, group, groups, zero, bias, act in (
            ((3,), 37, 5, 16, 3, lambda *s: None, _f32(-1, 1, 5), "none"),
            ((2, 9), 300, 70, 32, 10, _bytes, _f32(-1, 1, 70), "relu"),
            ((1,), 64, 133, 64, 1, _bytes, None, "hard_swish"),
            ((20,), 700, 64, 128, 6, lambda *s: None, None, "none"),
            ((0,), 8, 4, 8, 1, lambda *s: None, None, "none"),
        )
    ],
    grad=False,
)  # fmt: skip


def _ended(v: Any, out_scale: float, dtype: str, out_zero: int, low: int) -> Any:
    return v if dtype == "float32" else _affine(v, out_scale, out_zero, low)


def _matmul_int8(
    x: Any, y: Any, *, scale: float, x_zero: int = 0, y_zero: int = 0,
    out_scale: float = 0.0, dtype: str, out_zero: int = 0, low: int = -127,
) -> Any:  # fmt: skip
    acc = (x.astype(np.int64) - x_zero) @ (y.astype(np.int64) - y_zero)
    v = acc.astype(np.float32) * np.float32(scale)
    return _ended(v, out_scale, dtype, out_zero, low)


def _attention_int8(
    q: Any, k: Any, v: Any, mask: Any = None, *, scale: float, causal: bool = False,
    q_zero: int = 0, k_zero: int = 0, v_zero: int = 0, v_scale: float,
    weight_scale: float = 1 / 255, out_scale: float = 0.0, dtype: str,
    out_zero: int = 0, low: int = -127,
) -> Any:  # fmt: skip
    a, b, c = (
        np.moveaxis(x.astype(np.int64), 2, 1) - zero
        for x, zero in ((q, q_zero), (k, k_zero), (v, v_zero))
    )
    s = (a @ np.swapaxes(b, -1, -2)).astype(np.float32) * np.float32(scale)
    if mask is not None and mask.dtype == bool:
        s = np.where(mask, s, np.float32(-1e9))
    elif mask is not None:
        s = s + mask.astype(np.float32)
    if causal:
        s = np.where(np.arange(s.shape[3]) > np.arange(s.shape[2])[:, None], -np.inf, s)
    e = np.exp((s - s.max(3, keepdims=True)).astype(np.float64))
    p = (e / e.sum(3, keepdims=True)).astype(np.float32)
    step = np.float32(weight_scale)
    weights = np.clip(np.rint(p / step), 0, 255).astype(np.int64)
    y = (weights @ c).astype(np.float32) * (step * np.float32(v_scale))
    return _ended(np.moveaxis(y, 1, 2), out_scale, dtype, out_zero, low)


Sample(
    "matmul_int8",
    ref=_matmul_int8,
    cases=[
        case(
            _int8(*x), _int8(*y), scale=1e-3, x_zero=x_zero, y_zero=y_zero,
            out_scale=0.05, dtype=dtype, out_zero=out_zero, low=low,
        )
        for x, y in (
            ((3, 37), (37, 5)),
            ((2, 1, 40, 33), (3, 33, 50)),
            ((9, 2, 64), (9, 64, 33)),
            ((4, 3, 20), (20, 7)),
            ((1, 1), (1, 1)),
            ((0, 3), (3, 2)),
        )
        for x_zero, y_zero in ((0, 0), (-128, 0), (5, -9))
        for dtype, out_zero, low in (("float32", 0, -127), ("int8", 3, -100))
    ],
    dtypes=("int8",),
    rtol={"float32": 0.0},
    atol={"float32": 0.0},
)  # fmt: skip
Sample(
    "attention_int8",
    ref=_attention_int8,
    cases=[
        case(
            _int8(2, n, 3, d), _int8(2, m, 3, d), _int8(2, m, 3, e), mask, scale=2e-4,
            causal=causal, q_zero=zeros[0], k_zero=zeros[1], v_zero=zeros[2],
            v_scale=0.02, out_scale=0.01, dtype=dtype, out_zero=zeros[1],
        )
        for n, m, d, e, mask, causal in (
            (5, 7, 4, 9, None, False),
            (40, 40, 33, 20, None, True),
            (3, 150, 16, 16, _f32(-3, 0, 2, 1, 1, 150), False),
            (6, 20, 8, 8, np.arange(20) < 13, False),
        )
        for zeros in ((0, 0, 0), (3, -5, 9))
        for dtype in ("float32", "int8")
    ],
    dtypes=("int8",),
    # A weight next to a half may be rounded the other way: the exponential differs.
    rtol={"float32": 0.0},
    atol={"float32": 0.022, "int8": 2.0},
)  # fmt: skip
