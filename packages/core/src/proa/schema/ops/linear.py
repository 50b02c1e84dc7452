"""Matrix products."""

from __future__ import annotations

import functools
from typing import Any

from proa.schema.dtypes import FLOATING, INEXACT
from proa.schema.row import REFUSED
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)

_ACT = (
    '"none"|"relu"|"relu6"|"hard_swish"|"hard_sigmoid"|"sigmoid"|"tanh"|"gelu"|"silu"'
)


def _matmul_grad(g: Any, dz: Any, x: Any, y: Any) -> Any:
    # (.., n, k) @ (.., k, m) -> (.., n, m); broadcast batch axes are summed afterwards.
    return (
        g.matmul(dz, g.conj(g.swap_last(y))),
        g.matmul(g.conj(g.swap_last(x)), dz),
    )


op(
    "matmul(x, y)",
    shape="matmul",
    dtypes=(*INEXACT, "int32", "int64"),
    outputs=("z",),
    grad=_matmul_grad,
    promote="common",
    autocast="white",
    scratch=True,
    pack="y",
    doc="Matrix product of the last two axes, the axes before broadcast. Both have "
    "rank >= 2 (callers add and remove axes for vectors). Strides are absorbed, so a "
    "transposed view costs no copy.",
)


def _linear_grad(g: Any, dy: Any, x: Any, w: Any) -> Any:
    return (
        g.matmul(dy, g.swap_last(w)),
        g.linear_grad_weight(x, dy),
        g.sum_leading(dy),
    )


op(
    "linear(x, w, bias?)",
    shape="linear",
    dtypes=FLOATING,
    grad=_linear_grad,
    composite=lambda g, x, w, bias: g.add(g.matmul(x, w), bias),
    promote="common",
    autocast="white",
    scratch=True,
    pack="w",
    doc="x @ w + bias with w (in, out): (.., in) -> (.., out). x has rank >= 2.",
)
op(
    "linear_grad_weight(x, dy)",
    shape="linear_grad_weight",
    dtypes=FLOATING,
    outputs=("dw",),
    grad=lambda g, ddw, x, dy: (
        g.matmul(dy, g.swap_last(ddw)),
        g.matmul(x, ddw),
    ),
    promote="common",
    autocast="white",
    scratch=True,
    lite=False,
    doc="x^T @ dy over all leading axes: (.., in), (.., out) -> (in, out).",
)
op(
    "sum_leading(x)",
    shape="sum_leading",
    dtypes=INEXACT,
    grad=lambda g, dy, x: g.broadcast_like(dy, x),
    lite=False,
    scratch=True,
    doc="Sum over every axis but the last.",
)


op(
    f'linear_act(x, w, bias?, residual?, *, act: {_ACT} = "none")',
    shape="linear",
    dtypes=FLOATING,
    grad=REFUSED,
    scratch=True,
    pack="w",
    doc="act(x @ w + bias + residual): what the graph passes fuse linear, add and an "
    "activation into. Inference only.",
)
