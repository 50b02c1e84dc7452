"""Records of attention over (batch, length, heads, width)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Case, Sample, case
from .rand import units


def _masked(x: Any, mask: Any, causal: bool) -> Any:
    if mask is not None:
        x = np.where(mask, x, -1e9) if mask.dtype == bool else x + mask
    if causal:
        future = np.arange(x.shape[3]) > np.arange(x.shape[2])[:, None]
        x = np.where(future, -np.inf, x)
    return x


def _keep_scores(x: Any, mask: Any, causal: bool) -> Any:
    score = _masked(np.zeros(x.shape), None if mask is None else mask, causal)
    gone = np.isneginf(score)
    if mask is not None and mask.dtype == bool:
        gone = gone | ~mask
    return np.where(gone, 0, x)


def _factors(shape: tuple[int, ...], p: float, seed: int, offset: int) -> Any:
    if p == 0:
        return 1.0
    uniform = units(int(np.prod(shape)), "float32", seed, offset)
    return np.where(uniform >= np.float32(p), 1 / (1 - p), 0).reshape(shape)


def _weights(
    q: Any, k: Any, mask: Any, *, scale: float, causal: bool, **drop: Any
) -> tuple[Any, Any, Any, Any]:
    """Weights (batch, heads, n, m), dropout's factors, peaks and sums."""
    scores = _masked(np.einsum("bnhd,bmhd->bhnm", q, k) * scale, mask, causal)
    peak = scores.max(3, keepdims=True)
    e = np.exp(scores - peak)
    total = e.sum(3, keepdims=True)
    return e / total, _factors(e.shape, **drop), peak, total


def _attention(q: Any, k: Any, v: Any, mask: Any = None, **how: Any) -> Any:
    weights, factors, peak, total = _weights(q, k, mask, **{**_HOW, **how})
    y = np.einsum("bhnm,bmhe->bnhe", weights * factors, v)
    return y, np.concatenate([peak, total], 3)


def _attention_grad(
    dy: Any,
    q: Any,
    k: Any,
    v: Any,
    y: Any,
    statistics: Any,
    mask: Any = None,
    **how: Any,
) -> Any:
    how = {**_HOW, **how}
    weights, factors, _, _ = _weights(q, k, mask, **how)
    dv = np.einsum("bhnm,bnhe->bmhe", weights * factors, dy)
    dw = np.einsum("bnhe,bmhe->bhnm", dy, v) * factors
    ds = weights * (dw - (dw * weights).sum(3, keepdims=True))
    ds = _keep_scores(ds, mask, how["causal"]) * how["scale"]
    dq = np.einsum("bhnm,bmhd->bnhd", ds, k)
    return dq, np.einsum("bhnm,bnhd->bmhd", ds, q), dv


_HOW: dict[str, Any] = {"scale": 1.0, "causal": False, "p": 0.0, "seed": 0, "offset": 0}
_loose = {"float16": 2e-2, "bfloat16": 1e-1}
#: Batch, queries, keys, heads, width, width of values; shape of a mask; attributes.
_CALLS: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((2, 3, 5, 2, 4, 3), None, {"scale": 0.5}),
    ((1, 5, 5, 3, 8, 8), None, {"scale": 0.3, "causal": True}),
    ((2, 3, 4, 2, 4, 4), (2, 2, 3, 4), {"scale": 0.5}),
    ((2, 4, 3, 1, 2, 2), (4, 3), {"scale": 0.5, "causal": True}),
    ((2, 3, 3, 2, 2, 2), "bools", {"scale": 0.5}),
    ((1, 3, 6, 2, 2, 2), None, {"scale": 0.5, "p": 0.4, "seed": 5, "offset": 7}),
]
#: More than a tile, and a tile that is not full.
_LONG: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((1, 150, 290, 2, 20, 36), None, {"scale": 0.2}),
    ((1, 150, 290, 1, 20, 36), (1, 290), {"scale": 0.2}),
    ((1, 270, 270, 1, 16, 16), None, {"scale": 0.2, "causal": True}),
    ((1, 3, 131, 2, 5, 5), None, {"scale": 0.2, "p": 0.3, "seed": 9, "offset": 2}),
]
_EMPTY: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((0, 3, 4, 2, 2, 2), None, {"scale": 0.5}),
    ((2, 0, 4, 2, 2, 2), None, {"scale": 0.5}),
]


def _mask(sizes: tuple[int, ...], mask: Any) -> Any:
    if mask != "bools":
        return mask
    batch, queries, keys = sizes[:3]
    keep = np.random.default_rng(1).random((batch, 1, queries, keys)) < 0.6
    keep[..., 0] = True
    keep[0, 0, 1] = False  # a query that sees nothing sees all alike
    return keep


def _case(sizes: tuple[int, ...], mask: Any, attrs: dict[str, Any]) -> Case:
    b, n, m, h, d, e = sizes
    heads = ((b, n, h, d), (b, m, h, d), (b, m, h, e))
    return case(*heads, _mask(sizes, mask), **attrs)


def _grad_case(sizes: tuple[int, ...], mask: Any, attrs: dict[str, Any]) -> Case:
    """What the forward pass keeps fits the arrays it was made of."""
    rng = np.random.default_rng(3)
    b, n, m, h, d, e = sizes

    def draw(*shape: int) -> Any:  # values that every dtype holds
        return rng.integers(-8, 9, shape) / 8.0

    q, k, v, dy = draw(b, n, h, d), draw(b, m, h, d), draw(b, m, h, e), draw(b, n, h, e)
    given = _mask(sizes, mask)
    if isinstance(given, tuple):
        given = draw(*given)
    y, statistics = _attention(q, k, v, given, **attrs)
    return case(dy, q, k, v, y, statistics, given, **attrs)


Sample(
    "attention",
    ref=_attention,
    cases=[_case(*c) for c in [*_CALLS, *_LONG, *_EMPTY]],
    rtol=_loose,
    atol=_loose,
    grad_cases=[_case(*c) for c in _CALLS],
)
Sample(
    "attention_grad",
    ref=_attention_grad,
    cases=[_grad_case(*c) for c in [*_CALLS, *_LONG]],
    dtypes=("float32", "float64"),
    rtol={"float32": 1e-4},
    grad=False,  # y and kept are functions of q, k and v: see test_attention.py
)
_SCORES = [
    case((2, 2, 3, 4), None),
    case((2, 2, 3, 4), (2, 1, 1, 4)),
    case((1, 2, 3, 3), None, causal=True),
    case((2, 1, 3, 3), _mask((2, 3, 3), "bools"), causal=True),
    case((1, 1, 2, 260), (260,)),
]
Sample(
    "mask_scores",
    ref=lambda x, mask=None, causal=False: _masked(x, mask, causal),
    cases=_SCORES,
    dtypes=("bfloat16", "float32", "float64"),  # float16 does not hold -1e9
    grad_cases=[*_SCORES[:2], _SCORES[4]],  # -infinity has no difference
)
Sample(
    "keep_scores",
    ref=lambda x, mask=None, causal=False: _keep_scores(x, mask, causal),
    cases=_SCORES,
)
