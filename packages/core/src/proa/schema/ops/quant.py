"""Symmetric int8: q = clamp(round(x / scale), -127, 127), halves to even.

x is about q * scale.

scale is an array of one element, or of the size of ``axis`` (per channel).
"""

from __future__ import annotations

from typing import Any

from proa.schema.ops.conv import _GEOMETRY
from proa.schema.ops.linear import _ACT
from proa.schema.row import REFUSED, op

op(
    "quantize(x, scale, *, axis: int = -1)",
    shape="quantize",
    layout="follow",
    dtypes=("float32",),
    out="int8",
    grad=None,
    doc="float32 to int8; axis is used if scale has more than one element.",
)
op(
    "dequantize(x, scale, *, axis: int = -1)",
    shape="quantize",
    layout="follow",
    dtypes=("int8", "int32"),
    out="float32",
    grad=None,
    doc="Integers times scale.",
)


def _fake_quant_grad(g: Any, dy: Any, x: Any, scale: Any, *, axis: Any) -> Any:
    # Straight through inside the representable range, 0 outside (Bengio et al., 2013).
    return g.fake_quant_grad(dy, x, scale, axis=axis), None


op(
    "fake_quant(x, scale, *, axis: int = -1)",
    shape="quantize",
    layout="follow",
    dtypes=("float32",),
    grad=_fake_quant_grad,
    lite=False,
    doc="dequantize(quantize(x)): what int8 makes of x, still in float32.",
)
op(
    "fake_quant_grad(dy, x, scale, *, axis: int = -1)",
    shape="fake_quant_grad",
    layout="follow",
    dtypes=("float32",),
    outputs=("dx",),
    grad=lambda g, ddx, x, scale, *, axis: (
        g.fake_quant_grad(ddx, x, scale, axis=axis),
        None,
        None,
    ),
    lite=False,
    doc="dy where abs(x) <= 127 * scale, else 0.",
)
op(
    f"conv2d_int8(x, w, multiplier, bias?, residual?, *, {_GEOMETRY}, "
    f'act: {_ACT} = "none", out_scale: float = 0.0, dtype: dtype, '
    "residual_scale: float = 1.0, out_zero: int = 0, low: int = -127)",
    shape="conv2d_int8",
    layout="channels_last",
    dtypes=("int8",),
    out="attr",
    grad=None,
    scratch=True,
    pack="w",
    extra_isas=("neondot",),
    doc="v = act(acc * multiplier[o] + bias[o] + r) with acc the int32 convolution of "
    "int8 x and w, multiplier = x_scale * w_scale per output channel, bias in float32 "
    "and r the residual, in float32, or in int8 times residual_scale. "
    "dtype float32 gives v; int8 gives clamp(round(v / out_scale) + out_zero, low, "
    "127). "
    "Products and sums in float32 are separate roundings (no fused multiply-add), so "
    "that every instruction set gives the same integers.",
)
op(
    f'linear_int8(x, w, multiplier, bias?, residual?, *, act: {_ACT} = "none", '
    "out_scale: float = 0.0, dtype: dtype, residual_scale: float = 1.0, "
    "out_zero: int = 0, low: int = -127)",
    shape="linear_int8",
    dtypes=("int8",),
    out="attr",
    grad=None,
    scratch=True,
    pack="w",
    extra_isas=("neondot",),
    doc="As conv2d_int8, of the matrix product x @ w with w (in, out).",
)
op(
    f'linear_dynamic(x, w, scale, bias?, *, act: {_ACT} = "none", '
    "per_row: bool = True, symmetric: bool = True)",
    shape="linear_dynamic",
    dtypes=("float32",),
    grad=REFUSED,
    scratch=True,
    pack="w",
    extra_isas=("neondot",),
    doc="act(acc * (x_scale * scale[o]) + bias[o]) with acc the exact int32 product of "
    "x, rounded to int8 here, and w (in, out) of int8, whose columns have the "
    "factors scale (out,). The numbers of x are those of each row, or of the whole "
    "array unless per_row. symmetric: x_scale = max(abs(x)) / 127, q = "
    "clamp(round(x / x_scale), -127, 127). Else, as ONNX's DynamicQuantizeLinear: "
    "low = min(x, 0), high = max(x, 0), x_scale = (high - low) / 255, zero = "
    "round(-low / x_scale), q = clamp(round(x / x_scale) + zero, 0, 255), and acc "
    "is of q - zero. x_scale is 1 where that gives 0. Products and sums in float32 "
    "are separate roundings.",
)
op(
    "linear_weight_only(x, w, scale, zero?, bias?, *, bits: int, group: int, "
    f'act: {_ACT} = "none")',
    shape="linear_weight_only",
    dtypes=("float32", "float16", "bfloat16"),
    grad=REFUSED,
    scratch=True,
    pack="w",
    doc="act(x @ v + bias) with v[k, o] = (q[o, k] - zero[o, k // group]) * scale[o, k "
    "// group], rounded to float32 and summed in it. q are unsigned integers of 4 "
    "or 8 bits in the bytes of w (out, bytes), the low four bits first, and rows "
    "have whole groups: bytes = ceil(in / group) * group * bits / 8. scale (out, "
    "groups) is float32, float16 or bfloat16, zero (out, groups) uint8, or 8 or "
    "128 if it is not given. The packed weight keeps its bits: blocks of it become "
    "floats as they are multiplied.",
)
op(
    "gate_int8(x, gate, *, x_scale: float, out_scale: float)",
    shape="gate_int8",
    layout="follow",
    dtypes=("int8",),
    grad=None,
    doc="clamp(round(x * x_scale * gate / out_scale), -127, 127) of an image x with a "
    "factor for each of its channels, gate (n, c, 1, 1) in float32: the last step of "
    "squeeze-and-excitation.",
)
op(
    "mean_int8(x, *, scale: float)",
    shape="mean_int8",
    dtypes=("int8",),
    out="float32",
    grad=None,
    doc="Means of the channels of an image, (n, c, 1, 1): sum(x) * (scale / (h * w)) "
    "with an exact sum.",
)

op(
    "quantize_affine(x, scale, *, zero_point: int, low: int = -128)",
    shape="quantize_affine",
    layout="follow",
    dtypes=("float32",),
    out="int8",
    grad=None,
    doc="clamp(round(x / scale) + zero_point, low, 127), halves to even: asymmetric "
    "int8, whose 0 is not that of x. x is about (q - zero_point) * scale. scale is an "
    "array of one element. A ReLU before it is a low of zero_point.",
)

_BINARY = (
    "x, y, *, x_scale: float, y_scale: float, out_scale: float, x_zero: int = 0, "
    "y_zero: int = 0, out_zero: int = 0, low: int = -128"
)
_BINARY_DOC = (
    "of the dequantized inputs, a = (x - x_zero) * x_scale and b likewise, quantized "
    "as clamp(round(v / out_scale) + out_zero, low, 127). x and y have one shape. Each "
    "step is rounded to float32."
)
op(
    f"add_int8({_BINARY})",
    shape="binary_int8",
    layout="follow",
    dtypes=("int8",),
    outputs=("z",),
    grad=None,
    doc=f"v = a + b {_BINARY_DOC}",
)
op(
    f"mul_int8({_BINARY})",
    shape="binary_int8",
    layout="follow",
    dtypes=("int8",),
    outputs=("z",),
    grad=None,
    doc=f"v = a * b {_BINARY_DOC}",
)

op(
    "matmul_int8(x, y, *, scale: float, x_zero: int = 0, y_zero: int = 0, "
    "out_scale: float = 0.0, dtype: dtype, out_zero: int = 0, low: int = -127)",
    shape="matmul_int8",
    dtypes=("int8",),
    outputs=("z",),
    out="attr",
    grad=None,
    scratch=True,
    doc="v = acc * scale with acc the exact int32 matrix product of x - x_zero and y - "
    "y_zero, over the last two axes as matmul has it: a product of two activations. "
    "dtype float32 gives v; int8 gives clamp(round(v / out_scale) + out_zero, low, "
    "127). Strides are absorbed, so a transposed view costs no copy.",
)
op(
    "attention_int8(q, k, v, mask?, *, scale: float, causal: bool = False, "
    "q_zero: int = 0, k_zero: int = 0, v_zero: int = 0, v_scale: float, "
    "weight_scale: float = 0.00392156862745098, "
    "out_scale: float = 0.0, dtype: dtype, out_zero: int = 0, low: int = -127)",
    shape="attention_int8",
    dtypes=("int8",),
    out="attr",
    grad=None,
    scratch=True,
    doc="Attention of int8 arrays, shaped as the row attention has them: p = "
    "softmax(acc * scale + mask) with acc the exact int32 products of q - q_zero and "
    "k - k_zero, weights clamp(round(p / weight_scale) - 128, -128, 127), and v = acc "
    "* (weight_scale * v_scale) with acc the exact products of weights + 128 and v - "
    "v_zero. dtype float32 gives v; int8 gives "
    "clamp(round(v / out_scale) + out_zero, low, 127). mask is of bools or float32.",
)
