"""Rows of matrix products."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.ops.image import activated
from proa.interop.onnx.exporter.standard import reduce, transpose
from proa.interop.onnx.exporter.table import export_row


@export_row("matmul")
def matmul(c: Call, x: Ref, y: Ref) -> Ref:
    return c.op("MatMul", x, y)


@export_row("linear")
def linear(c: Call, x: Ref, w: Ref, bias: Ref | None = None) -> Ref:
    if x.rank == 2 and bias is not None:
        return c.op("Gemm", x, w, bias)
    y = c.op("MatMul", x, w)
    return y if bias is None else c.op("Add", y, bias)


@export_row("linear_act")
def linear_act(c: Call, x: Ref, w: Ref, bias: Ref | None = None,
               residual: Ref | None = None, *, act: str) -> Ref:  # fmt: skip
    y = linear(c, x, w, bias)
    if residual is not None:
        y = c.op("Add", y, residual)
    return activated(c, y, act)


@export_row("linear_grad_weight")
def linear_grad_weight(c: Call, x: Ref, dy: Ref) -> Ref:
    rows = [
        c.op("Reshape", v, c.vector([-1, c.size(v, -1)])) for v in (x, dy)
    ]  # fmt: skip
    return c.op("MatMul", transpose(c, rows[0], [1, 0]), rows[1])


@export_row("sum_leading")
def sum_leading(c: Call, x: Ref) -> Ref:
    return reduce(c, "ReduceSum", x, list(range(x.rank - 1)), keepdim=False)
