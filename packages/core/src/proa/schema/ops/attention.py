"""Attention over arrays (batch, length, heads, width); scores are (batch, heads,
queries, keys).
"""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import FLOATING
from proa.schema.row import op

_HOW = "scale: float, causal: bool = False, p: float = 0.0, seed: int = 0, "
_HOW += "offset: int = 0"
_HEADS_FIRST = (0, 2, 1, 3)


def _heads_first(g: Any, x: Any) -> Any:
    return g.transpose(x, perm=_HEADS_FIRST)  # its own inverse


def _weights(g: Any, q: Any, k: Any, mask: Any, scale: Any, causal: Any) -> Any:
    scores = g.mul(g.matmul(q, g.swap_last(k)), scale)
    return g.softmax(g.mask_scores(scores, mask, causal=causal))


def _backward(
    g: Any, dy: Any, q: Any, k: Any, v: Any, mask: Any, how: dict[str, Any]
) -> tuple[Any, Any, Any, Any]:
    """Gradients of q, k, v and of the scores after the mask."""
    dy, q, k, v = (_heads_first(g, x) for x in (dy, q, k, v))
    scale, causal = how["scale"], how["causal"]
    drop = {name: how[name] for name in ("p", "seed", "offset")}
    weights = _weights(g, q, k, mask, scale, causal)
    dv = g.matmul(g.swap_last(g.dropout(weights, **drop)), dy)
    dw = g.dropout(g.matmul(dy, g.swap_last(v)), **drop)
    ds = g.mul(weights, g.sub(dw, g.sum_axis(g.mul(dw, weights), axis=-1)))
    ds = g.keep_scores(ds, mask, causal=causal)
    dq = g.mul(g.matmul(ds, k), scale)
    dk = g.mul(g.matmul(g.swap_last(ds), q), scale)
    return (*(_heads_first(g, x) for x in (dq, dk, dv)), ds)


def _attention_rule(
    g: Any,
    dy: Any,
    y: Any,
    statistics: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    *,
    scale: Any,
    causal: Any,
    p: Any,
    seed: Any,
    offset: Any,
) -> Any:
    how = {"scale": scale, "causal": causal, "p": p, "seed": seed, "offset": offset}
    dq, dk, dv = g.attention_grad(dy, q, k, v, y, statistics, mask, **how)
    # Who wants the gradient of a mask pays for all the scores.
    return dq, dk, dv, _backward(g, dy, q, k, v, mask, how)[3]


def _attention_grad(
    g: Any,
    dy: Any,
    q: Any,
    k: Any,
    v: Any,
    y: Any,
    statistics: Any,
    mask: Any,
    *,
    scale: Any,
    causal: Any,
    p: Any,
    seed: Any,
    offset: Any,
) -> Any:
    how = {"scale": scale, "causal": causal, "p": p, "seed": seed, "offset": offset}
    return _backward(g, dy, q, k, v, mask, how)[:3]


op(
    f"attention(q, k, v, mask?, *, {_HOW})",
    shape="attention",
    random=True,
    draw_rate="p",
    dtypes=FLOATING,
    outputs=("y", "statistics"),
    out=("same", "wide"),
    grad=_attention_rule,
    autocast="white",
    scratch=True,
    doc="softmax(scale * q k^T + mask) v of each head (Vaswani et al., 2017), tile by "
    "tile, without the matrix of scores: q (batch, n, heads, d), k (batch, m, heads, "
    "d), v (batch, m, heads, e) -> y (batch, n, heads, e). mask broadcasts to (batch, "
    "heads, n, m): bools say which keys to keep (the score of others is -1e9), numbers "
    "are added. causal: query i sees keys 0 .. i alone. Of the weights a share p is "
    "dropped, as the row dropout does with that key. statistics: the peak of each "
    "query's scores and the sum of exp(score - peak), for the gradient.",
)
op(
    f"attention_grad(dy, q, k, v, y, statistics, mask?, *, {_HOW})",
    shape="attention_grad",
    random=True,
    draw_rate="p",
    dtypes=FLOATING,
    outputs=("dq", "dk", "dv"),
    grad="composite",
    composite=_attention_grad,
    lite=False,
    scratch=True,
    doc="Gradient of attention with respect to q, k and v.",
)
op(
    "mask_scores(x, mask?, *, causal: bool = False)",
    shape="mask_scores",
    dtypes=FLOATING,
    grad=lambda g, dy, mask, *, causal: (
        g.keep_scores(dy, mask, causal=causal),
        g.keep_scores(dy, mask, causal=causal),
    ),
    lite=False,
    doc="Scores (batch, heads, n, m) under a mask, as attention takes it; with causal "
    "the scores of keys after the query are -infinity.",
)
op(
    "keep_scores(x, mask?, *, causal: bool = False)",
    shape="mask_scores",
    dtypes=FLOATING,
    grad=lambda g, dy, mask, *, causal: (
        g.keep_scores(dy, mask, causal=causal),
        None,
    ),
    lite=False,
    doc="x where mask_scores lets x through, else 0.",
)
