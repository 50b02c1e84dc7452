"""Rows of products of matrices, and attention."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import activated, scaled
from proa.interop.paddle.exporter.ops.loss import masked
from proa.interop.paddle.exporter.table import export_row

_HEADS_FIRST = (0, 2, 1, 3)


def product(c: Call, x: Ref, y: Ref, shape: tuple[int, ...] | None) -> Ref:
    """The product of matrices."""
    given = {"X": x, "Y": y}
    return c.op("matmul_v2", given, shape, trans_x=False, trans_y=False)


@export_row("matmul")
def matmul(c: Call, x: Ref, y: Ref) -> Ref:
    return product(c, x, y, c.outputs[0].shape)


@export_row("linear")
def linear(c: Call, x: Ref, w: Ref, bias: Ref | None = None) -> Ref:
    y = product(c, x, w, c.outputs[0].shape)
    return y if bias is None else c.binary("elementwise_add", y, bias)


@export_row("linear_act")
def linear_act(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, residual: Ref | None = None, *,
    act: str,
) -> Ref:  # fmt: skip
    y = linear(c, x, w, bias)
    if residual is not None:
        y = c.binary("elementwise_add", y, residual)
    return activated(c, y, act)


@export_row("attention")
def attention(
    c: Call, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, *, scale: float,
    causal: bool, p: float, seed: int, offset: int,
) -> Ref:  # fmt: skip
    """softmax(scale * q k^T + mask) v of arrays (batch, length, heads, size)."""
    if p:
        c.refuse("dropout")
    assert q.shape is not None and k.shape is not None and v.shape is not None
    shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    q = scaled(c, c.transpose(q, _HEADS_FIRST), scale)
    scores = product(c, q, c.transpose(k, (0, 2, 3, 1)), shape)
    scores = masked(c, scores, mask, causal)
    weights = c.unary("softmax", scores, axis=-1)
    heads = (*shape[:3], v.shape[3])
    found = product(c, weights, c.transpose(v, _HEADS_FIRST), heads)
    return c.transpose(found, _HEADS_FIRST)
