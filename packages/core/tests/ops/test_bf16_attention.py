"""Attention and norms of bfloat16 are as near as the rounding of operands allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core

RNG = np.random.default_rng(7)
#: Half a unit in the last place of bfloat16, relative.
HALF = 2.0**-8


def drawn(*shape: int) -> tuple[Any, Any]:
    """A bfloat16 tensor and its values in float64."""
    x = proa.to_tensor(RNG.standard_normal(shape).astype("float32")).astype("bfloat16")
    return x, x.astype("float64").numpy()


def values(x: Any) -> Any:
    return x.astype("float64").numpy()


#: Batch, queries, keys, heads, width, width of values, causal.
SHAPES = [
    (2, 128, 128, 3, 64, 64, False),
    (1, 150, 290, 2, 20, 36, False),
    (1, 131, 131, 1, 33, 7, True),
    (2, 1, 77, 2, 16, 64, False),
    (1, 9, 1, 1, 1, 1, False),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_attention_is_within_the_rounding_of_its_weights(shape: Any) -> None:
    b, n, m, h, d, e, causal = shape
    (q, qw), (k, kw), (v, vw) = drawn(b, n, h, d), drawn(b, m, h, d), drawn(b, m, h, e)
    (dy, dyw), scale = drawn(b, n, h, e), d**-0.5
    for x in (q, k, v):
        x.stop_gradient = False
    y, _ = _core.ops.attention(
        q, k, v, None, scale=scale, causal=causal, p=0.0, seed=0, offset=0
    )
    scores = np.einsum("bnhd,bmhd->bhnm", qw, kw) * scale
    if causal:
        scores[..., np.arange(m) > np.arange(n)[:, None]] = -np.inf
    p = np.exp(scores - scores.max(3, keepdims=True))
    p /= p.sum(3, keepdims=True)
    want = np.einsum("bhnm,bmhe->bnhe", p, vw)
    size = np.einsum("bhnm,bmhe->bnhe", p, np.abs(vw))
    slack = 1e-4 * size
    assert (np.abs(values(y) - want) <= HALF * size + HALF * abs(want) + slack).all()
    # ds = p (dp - sum(p dp)), with p and ds rounded, and the sum by a rounded y.
    dp = np.einsum("bnhe,bmhe->bhnm", dyw, vw)
    ds = p * (dp - (p * dp).sum(3, keepdims=True)) * scale
    off = HALF * np.einsum("bnhe,bnhe->bhn", np.abs(dyw), np.abs(want) + size)
    ds_off = HALF * np.abs(ds) + (off[..., None] + 1e-4) * p * scale
    grads = {
        "dq": (np.einsum("bhnm,bmhd->bnhd", ds, kw),
               np.einsum("bhnm,bmhd->bnhd", ds_off, np.abs(kw))),
        "dk": (np.einsum("bhnm,bnhd->bmhd", ds, qw),
               np.einsum("bhnm,bnhd->bmhd", ds_off, np.abs(qw))),
        "dv": (np.einsum("bhnm,bnhe->bmhe", p, dyw),
               HALF * np.einsum("bhnm,bnhe->bmhe", p, np.abs(dyw))),
    }  # fmt: skip
    got = proa.grad([y], [q, k, v], [dy])
    for dx, (name, (wanted, bound)) in zip(got, grads.items(), strict=True):
        allowed = bound + HALF * np.abs(wanted) + 1e-4
        assert (np.abs(values(dx) - wanted) <= allowed).all(), name


def test_attention_has_the_same_bits_at_any_place_of_a_batch() -> None:
    (q, _), (k, _), (v, _) = (drawn(3, 70, 2, 24) for _ in range(3))
    how = {"scale": 0.2, "causal": False, "p": 0.0, "seed": 0, "offset": 0}
    whole = values(_core.ops.attention(q, k, v, None, **how)[0])
    for i in range(3):
        some = [x[i : i + 1] for x in (q, k, v)]
        part = _core.ops.attention(*some, None, **how)[0]
        np.testing.assert_array_equal(values(part), whole[i : i + 1])


def test_layer_norm_rounds_once() -> None:
    x, wide = drawn(5, 7, 100)
    scale, bias = (RNG.standard_normal(100).astype("float32") for _ in range(2))
    got = proa.nn.functional.layer_norm(
        x, [100], proa.to_tensor(scale), proa.to_tensor(bias)
    )
    mean = wide.mean(2, keepdims=True)
    want = (wide - mean) / np.sqrt(wide.var(2, keepdims=True) + 1e-5) * scale + bias
    assert (np.abs(values(got) - want) <= HALF * np.abs(want) + 1e-5).all()
