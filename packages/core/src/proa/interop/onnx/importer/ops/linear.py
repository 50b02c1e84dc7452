"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import is_float
from proa.interop.onnx.importer.table import onnx_op


@onnx_op("MatMul", weights=(1,))
def matmul(call: Call, x: Any, y: Any) -> Any:
    if not is_float(x):
        wide = proa.matmul(x.astype("float64"), y.astype("float64"))
        return proa.round(wide).astype(x.dtype)
    return proa.matmul(x, y)


@onnx_op("Gemm", weights=(1, 2))
def gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    dtype = a.dtype
    if not is_float(a):
        a, b, c = (None if t is None else t.astype("float64") for t in (a, b, c))
    a = proa.transpose(a, [1, 0]) if call.get("transA", 0) else a
    b = proa.transpose(b, [1, 0]) if call.get("transB", 0) else b
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    found = proa.matmul(a, b)
    found = found if alpha == 1.0 else found * alpha
    if c is not None:
        found = found + (c if beta == 1.0 else c * beta)
    return found if is_float(found) and found.dtype == dtype else found.astype(dtype)


@onnx_op("Einsum")
def einsum(call: Call, *xs: Any) -> Any:
    equation = call.get("equation").replace(" ", "")
    return proa.einsum(equation, *xs)


@onnx_op("Det")
def det(call: Call, x: Any) -> Any:
    return proa.linalg.det(x)


def zero_point(x: Any, point: Any, axis: int) -> Any:
    """The int32 elements of x less its zero point, which may be one for each index."""
    x = x.astype("int32")
    if point is None:
        return x
    point = point.astype("int32")
    if point.ndim == 1 and point.shape[0] > 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        point = proa.reshape(point, shape)
    elif point.ndim == 1:
        point = proa.reshape(point, [])
    return x - point


@onnx_op("MatMulInteger")
def matmul_integer(
    call: Call, a: Any, b: Any, a_point: Any = None, b_point: Any = None
) -> Any:
    a, b = (
        zero_point(a, a_point, max(a.ndim - 2, 0)),
        zero_point(b, b_point, b.ndim - 1),
    )
    return exact_product(a, b)


def exact_product(a: Any, b: Any) -> Any:
    """The int32 matrix product; float64 holds every sum without rounding."""
    wide = proa.matmul(a.astype("float64"), b.astype("float64"))
    return wide.astype("int32")


@onnx_op("QLinearMatMul")
def qlinear_matmul(
    call: Call, a: Any, a_scale: Any, a_point: Any, b: Any, b_scale: Any,
    b_point: Any, y_scale: Any, y_point: Any,
) -> Any:  # fmt: skip
    a_axis, b_axis = max(a.ndim - 2, 0), b.ndim - 1
    product = exact_product(
        zero_point(a, a_point, a_axis), zero_point(b, b_point, b_axis)
    )
    factor = a_scale.astype("float32") * b_scale.astype("float32")
    return requantized(product.astype("float32") * factor, y_scale, y_point)


def requantized(x: Any, scale: Any, point: Any) -> Any:
    """round(x / scale) + point in the range of point's dtype.

    An int32 point stands for one of uint16: the standard has no other.
    """
    kind = point.dtype.name
    limits = np.iinfo("uint16" if kind == "int32" else kind)
    found = proa.round(x / scale.astype("float32")) + point.astype("float32")
    return proa.clip(found, float(limits.min), float(limits.max)).astype(point.dtype)
