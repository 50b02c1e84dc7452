"""Attention and the Transformer against torch with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError

from ..torch_reference import torch

RNG = np.random.RandomState(0)
X = RNG.randn(2, 5, 8).astype(np.float32)


def give(target: Any, source: np.ndarray) -> None:
    with torch.no_grad():
        target.copy_(torch.tensor(source))


def copy_attention(ours: nn.MultiHeadAttention, theirs: Any) -> None:
    parts = (ours.q_proj, ours.k_proj, ours.v_proj)
    give(theirs.in_proj_weight, np.concatenate([p.weight.numpy().T for p in parts]))
    give(theirs.in_proj_bias, np.concatenate([p.bias.numpy() for p in parts]))
    give(theirs.out_proj.weight, ours.out_proj.weight.numpy().T)
    give(theirs.out_proj.bias, ours.out_proj.bias.numpy())


def test_attention_with_masks_and_weights() -> None:
    ours = nn.MultiHeadAttention(8, 2, need_weights=True)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    copy_attention(ours, theirs)
    x, t = proa.to_tensor(X), torch.tensor(X)
    keep = np.tril(np.ones((5, 5), bool))
    added = np.where(keep, 0, -1e9).astype(np.float32)
    for mask in (None, keep, added):
        out, weights = ours(x, attn_mask=None if mask is None else proa.to_tensor(mask))
        forbidden = None if mask is None else torch.tensor(~keep)
        expected, share = theirs(t, t, t, attn_mask=forbidden)
        np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(
            weights.numpy().mean(1), share.detach().numpy(), atol=1e-5
        )


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(InvalidArgumentError, match="must divide"):
        nn.MultiHeadAttention(8, 3)


def test_a_growing_cache_equals_a_causal_mask() -> None:
    layer = nn.MultiHeadAttention(8, 2)
    x = proa.to_tensor(X)
    keep = proa.to_tensor(np.tril(np.ones((5, 5), bool)))
    whole = layer(x, attn_mask=keep).numpy()
    cache = layer.gen_cache(x)
    for i in range(5):
        step, cache = layer(x[:, i : i + 1], cache=cache)
        np.testing.assert_allclose(step.numpy()[:, 0], whole[:, i], atol=1e-5)


@pytest.mark.parametrize("before", [False, True])
def test_encoder(before: bool) -> None:
    ours = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, 0.0, normalize_before=before), 2
    )
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(
            8, 2, 16, 0.0, batch_first=True, norm_first=before
        ),
        2, enable_nested_tensor=False,
    )  # fmt: skip
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        copy_attention(a.self_attn, b.self_attn)
        for name in ("linear1", "linear2"):
            give(getattr(b, name).weight, getattr(a, name).weight.numpy().T)
            give(getattr(b, name).bias, getattr(a, name).bias.numpy())
    x = proa.to_tensor(X, stop_gradient=False)
    t = torch.tensor(X, requires_grad=True)
    y, expected = ours(x), theirs(t)
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), atol=1e-5)
    (y * y * y).sum().backward()
    (expected**3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-3, atol=1e-3)


def test_layers_of_an_encoder_start_differently() -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2)
    first, second = (layer.linear1.weight.numpy() for layer in net.layers)
    assert not np.array_equal(first, second)


def test_the_whole_transformer_trains() -> None:
    proa.seed(0)
    net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
    mask = net.generate_square_subsequent_mask(5)
    assert np.isneginf(mask.numpy()[0, 1])
    src, tgt = proa.to_tensor(X), proa.to_tensor(RNG.randn(2, 5, 8).astype(np.float32))
    adam = proa.optimizer.Adam(0.01, parameters=net.parameters())
    losses = []
    for _ in range(20):
        loss = nn.functional.mse_loss(net(src, tgt, tgt_mask=mask), tgt)
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
