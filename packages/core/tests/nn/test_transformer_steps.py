"""The Transformer against its formula in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn

RNG = np.random.default_rng(8)
WIDTH, HEADS = 8, 2


def _random(*shape: int) -> Any:
    return RNG.normal(size=shape).astype("float32")


def _linear(layer: Any, x: Any) -> Any:
    return x @ layer.weight.numpy() + layer.bias.numpy()


def _norm(layer: Any, x: Any) -> Any:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    y = (x - mean) / np.sqrt(var + 1e-5)
    return y * layer.weight.numpy() + layer.bias.numpy()


def _heads(x: Any) -> Any:
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def _attention(layer: Any, q: Any, k: Any, v: Any, added: Any = 0.0) -> Any:
    q, k, v = (
        _heads(_linear(p, x))
        for p, x in ((layer.q_proj, q), (layer.k_proj, k), (layer.v_proj, v))
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    joined = (weights @ v).swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)
    return _linear(layer.out_proj, joined)


def _gelu(x: Any) -> Any:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def _feed(layer: Any, x: Any) -> Any:
    return _linear(layer.linear2, _gelu(_linear(layer.linear1, x)))


def _decoder(layer: Any, x: Any, memory: Any, causal: Any, before: bool) -> Any:
    parts = [
        (layer.norm1, lambda y: _attention(layer.self_attn, y, y, y, causal)),
        (layer.norm2, lambda y: _attention(layer.cross_attn, y, memory, memory)),
        (layer.norm3, lambda y: _feed(layer, y)),
    ]
    for norm, part in parts:
        x = x + part(_norm(norm, x)) if before else _norm(norm, x + part(x))
    return x


def _causal(n: int) -> Any:
    return np.triu(np.full((n, n), -1e9, "float32"), 1)


def _decoder_layer(before: bool) -> Any:
    return nn.TransformerDecoderLayer(
        WIDTH, HEADS, 16, dropout=0.0, activation="gelu", normalize_before=before
    )


@pytest.mark.parametrize("before", [False, True])
def test_decoder_layer_equals_its_formula(before: bool) -> None:
    layer = _decoder_layer(before)
    x, memory = _random(2, 5, WIDTH), _random(2, 3, WIDTH)
    got = layer(*map(proa.to_tensor, (x, memory, _causal(5))))
    want = _decoder(layer, x, memory, _causal(5), before)
    np.testing.assert_allclose(got.numpy(), want, atol=2e-5)


@pytest.mark.parametrize("before", [False, True])
def test_decoder_with_caches_equals_the_whole(before: bool) -> None:
    decoder = nn.TransformerDecoder(_decoder_layer(before), 3, nn.LayerNorm(WIDTH))
    x, memory = _random(2, 5, WIDTH), proa.to_tensor(_random(2, 3, WIDTH))
    given = proa.to_tensor(x)
    whole = decoder(given, memory, proa.to_tensor(_causal(5))).numpy()
    want = x
    for layer in decoder.layers:
        want = _decoder(layer, want, memory.numpy(), _causal(5), before)
    np.testing.assert_allclose(whole, _norm(decoder.norm, want), atol=5e-5)
    cache = decoder.gen_cache(memory)
    for i in range(5):
        y, cache = decoder(given[:, i : i + 1], memory, cache=cache)
        np.testing.assert_allclose(y.numpy()[:, 0], whole[:, i], atol=5e-5)
    assert cache[0][0].k.shape == [2, HEADS, 5, WIDTH // HEADS]
    zipped = decoder.gen_cache(memory, do_zip=True)
    assert len(zipped) == 2 and len(zipped[0]) == 3


@pytest.mark.parametrize("kind", ["bool", "int64", "float32", "float64"])
def test_masks_of_every_dtype_are_equivalent(kind: str) -> None:
    layer = nn.MultiHeadAttention(WIDTH, HEADS)
    x = _random(2, 4, WIDTH)
    keep = np.tril(np.ones((4, 4), bool))
    added = np.where(keep, 0, -1e9)
    mask = added.astype(kind) if "float" in kind else keep.astype(kind)
    got = layer(proa.to_tensor(x), attn_mask=proa.to_tensor(mask))
    want = _attention(layer, x, x, x, added)
    assert got.dtype == "float32"
    np.testing.assert_allclose(got.numpy(), want, atol=2e-5)


def test_keys_and_values_are_projected_into_heads() -> None:
    layer = nn.MultiHeadAttention(WIDTH, HEADS, kdim=3, vdim=5)
    query, key, value = _random(2, 4, WIDTH), _random(2, 6, 3), _random(2, 6, 5)
    k, v = layer.compute_kv(proa.to_tensor(key), proa.to_tensor(value))
    np.testing.assert_allclose(k.numpy(), _heads(_linear(layer.k_proj, key)), atol=1e-5)
    np.testing.assert_allclose(
        v.numpy(), _heads(_linear(layer.v_proj, value)), atol=1e-5
    )
    want = _attention(layer, query, key, value)
    tensors = [proa.to_tensor(t) for t in (query, key, value)]
    np.testing.assert_allclose(layer(*tensors).numpy(), want, atol=2e-5)
    static = layer.gen_cache(*tensors[1:], nn.MultiHeadAttention.StaticCache)
    out, same = layer(tensors[0], cache=static)
    np.testing.assert_allclose(out.numpy(), want, atol=2e-5)
    assert same is static


def _encoder(layer: Any, x: Any, before: bool) -> Any:
    parts = [
        (layer.norm1, lambda y: _attention(layer.self_attn, y, y, y)),
        (layer.norm2, lambda y: _feed(layer, y)),
    ]
    for norm, part in parts:
        x = x + part(_norm(norm, x)) if before else _norm(norm, x + part(x))
    return x


@pytest.mark.parametrize("before", [False, True])
def test_an_encoder_and_its_gradient_equal_the_formula(before: bool) -> None:
    net = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, 16, 0.0, activation="gelu", normalize_before=before
        ),
        2,
    )
    net.to(dtype="float64")

    def formula(x: Any) -> Any:
        for layer in net.layers:
            x = _encoder(layer, x, before)
        return x

    a, weights = RNG.normal(size=(2, 5, WIDTH)), RNG.normal(size=(2, 5, WIDTH))
    x = proa.to_tensor(a, stop_gradient=False)
    y = net(x)
    np.testing.assert_allclose(y.numpy(), formula(a), rtol=1e-6, atol=1e-7)
    (y * proa.to_tensor(weights)).sum().backward()
    for _ in range(5):  # the derivative in a direction
        delta, h = RNG.normal(size=a.shape), 1e-5
        up, down = ((formula(a + s * delta) * weights).sum() for s in (h, -h))
        slope = (x.grad.numpy() * delta).sum()
        assert slope == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", [None, bool, "float32"])
def test_attention_returns_its_weights_and_applies_masks(kind: Any) -> None:
    layer = nn.MultiHeadAttention(WIDTH, HEADS, need_weights=True)
    x = _random(2, 5, WIDTH)
    added = 0.0 if kind is None else _causal(5)
    mask = None
    if kind is not None:
        mask = proa.to_tensor(added == 0 if kind is bool else added)
    out, weights = layer(proa.to_tensor(x), attn_mask=mask)
    q, k = (_heads(_linear(p, x)) for p in (layer.q_proj, layer.k_proj))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS) + added
    share = np.exp(scores - scores.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights.numpy(), share, atol=1e-5)
    np.testing.assert_allclose(
        out.numpy(), _attention(layer, x, x, x, added), atol=1e-5
    )
