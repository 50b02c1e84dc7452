"""Products of two activations, trained with their rounding in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import (
    QAT,
    MatMul,
    QuantConfig,
    QuantizedAttention,
    QuantizedMatMul,
)
from proa_slim.quant.pair_layers import rounded_weights

RNG = np.random.default_rng(3)
SPEC = [InputSpec([None, 12, 16], "float32", "x")]
X = RNG.standard_normal((6, 12, 16)).astype(np.float32)
KINDS = ("linear", "attention", "matmul")


class Scores(nn.Layer):
    """Attention of a form of its own, with its products as layers."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.scores, self.mix = MatMul(), MatMul()

    def forward(self, x: Any) -> Any:
        scores = self.scores(self.q(x), self.k(x), transpose_y=True)
        return self.mix(nn.functional.sigmoid(scores), self.v(x))


def encoder() -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, 0.1), 2)


def trained(network: nn.Layer, config: QuantConfig, steps: int = 24) -> nn.Layer:
    proa.seed(1)
    student = QAT(config).quantize(network)
    adam = proa.optimizer.Adam(1e-2, parameters=student.parameters())
    for _ in range(steps):
        (student(proa.to_tensor(X)) - 1).square().mean().backward()
        adam.step()
        adam.clear_grad()
    student.eval()
    return student


CONFIGS = [
    QuantConfig("moving_average", ops=KINDS),
    QuantConfig("abs_max", symmetric=False, ops=KINDS),
    QuantConfig("moving_average", learn_steps=True, ops=KINDS),
    QuantConfig("moving_average", learn_ranges=True, ops=KINDS),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("make", "op", "count"),
    [
        (encoder, "attention_int8", 2),
        (lambda: nn.MultiHeadAttention(16, 4), "attention_int8", 1),
        (Scores, "matmul_int8", 2),
    ],
)
def test_what_is_trained_has_the_bits_of_what_is_exported(
    config: QuantConfig, make: Any, op: str, count: int
) -> None:
    student = trained(make(), config)
    model = QAT(config).convert(student, SPEC)
    ops = [node.op for node in model.program.main.nodes]
    assert ops.count(op) == count
    assert not {"attention", "matmul", "fake_quant", "linear"} & set(ops)
    x = RNG.standard_normal((3, 12, 16)).astype(np.float32)
    with_gradient = student(proa.to_tensor(x)).numpy()
    with proa.no_grad():
        without = student(proa.to_tensor(x)).numpy()
    np.testing.assert_array_equal(model(x), with_gradient)
    np.testing.assert_array_equal(model(x), without)


@pytest.mark.parametrize("kind", ["none", "bools", "added"])
def test_training_computes_attention_of_rounded_arrays(kind: str) -> None:
    q, k, v = (RNG.standard_normal((2, 5, 3, 4)).astype(np.float32) for _ in range(3))
    keep = RNG.random((2, 1, 5, 5)) < 0.7
    keep[..., 0] = True
    added = RNG.standard_normal((2, 1, 5, 5)).astype(np.float32)
    mask, term = {
        "none": (None, 0.0),
        "bools": (keep, np.where(keep, 0.0, -1e9)),
        "added": (added, added),
    }[kind]
    layer = QuantizedAttention(QuantConfig("abs_max"))
    given = None if mask is None else proa.to_tensor(mask)
    found = layer(*(proa.to_tensor(x) for x in (q, k, v)), given).numpy()

    def grid(x: Any) -> Any:
        step = np.abs(x).max() / 127
        return np.rint(x / step) * step

    a, b, c = (grid(x.astype(np.float64)) for x in (q, k, v))
    scores = np.einsum("bnhd,bmhd->bhnm", a, b) / 2 + term
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = np.rint(255 * p / p.sum(-1, keepdims=True)) / 255
    want = np.einsum("bhnm,bmhe->bnhe", p, c)
    # One weight at the border of two steps may fall to either side.
    np.testing.assert_allclose(found, want, atol=np.abs(c).max() / 255)
    assert np.median(np.abs(found - want)) < 1e-5
    layer.eval()
    exact = layer(*(proa.to_tensor(x) for x in (q, k, v)), given).numpy()
    np.testing.assert_allclose(exact, want, atol=np.abs(c).max() / 255)
    assert np.median(np.abs(exact - want)) < 1e-5


def test_weights_of_softmax_pass_gradients_straight_through() -> None:
    p = proa.to_tensor(RNG.uniform(0, 1, (4, 7)).astype(np.float32))
    dy = RNG.standard_normal((4, 7)).astype(np.float32)
    p.stop_gradient = False
    y = rounded_weights(p)
    (y * proa.to_tensor(dy)).sum().backward()
    np.testing.assert_allclose(y.numpy(), np.rint(255 * p.numpy()) / 255, rtol=1e-6)
    np.testing.assert_allclose(p.grad.numpy(), dy, rtol=1e-6)


def test_steps_of_queries_keys_and_values_are_learned() -> None:
    config = QuantConfig("moving_average", learn_steps=True, ops=("attention",))
    student = QAT(config).quantize(nn.MultiHeadAttention(16, 4))
    attend = student.attend
    assert isinstance(attend, QuantizedAttention)
    quantizers = (attend.q_quantizer, attend.k_quantizer, attend.v_quantizer)
    names = {id(p) for p in student.parameters()}
    assert all(id(q.step) in names for q in quantizers)
    for _ in range(21):
        student.clear_gradients()
        student(proa.to_tensor(X)).square().sum().backward()
    assert all(float(q.step.grad) != 0 for q in quantizers)


def test_training_lowers_the_loss_of_a_rounded_encoder() -> None:
    proa.seed(2)
    network = encoder()
    student = QAT(CONFIGS[0]).quantize(network)
    adam = proa.optimizer.Adam(1e-2, parameters=student.parameters())
    losses = []
    for _ in range(30):
        loss = (student(proa.to_tensor(X)) - proa.to_tensor(X[::-1].copy())).square()
        losses.append(float(loss.mean()))
        loss.mean().backward()
        adam.step()
        adam.clear_grad()
    assert losses[-1] < 0.7 * losses[0]


def test_only_chosen_products_are_rounded() -> None:
    def kinds(network: nn.Layer, **options: Any) -> list[type[nn.Layer]]:
        student = QAT(QuantConfig("abs_max", **options)).quantize(network)
        both = (QuantizedAttention, QuantizedMatMul)
        return [type(x) for x in student.sublayers() if isinstance(x, both)]

    assert kinds(encoder()) == []
    assert kinds(encoder(), ops=KINDS) == [QuantizedAttention] * 2
    skip = ("layers.0.self_attn",)
    assert kinds(encoder(), ops=KINDS, skip=skip) == [QuantizedAttention]
    assert kinds(Scores(), ops=KINDS) == [QuantizedMatMul] * 2
    weights = nn.MultiHeadAttention(16, 4, need_weights=True)
    assert kinds(weights, ops=KINDS) == []
    with pytest.raises(PreconditionNotMetError, match=r"none of \['attention'\]"):
        kinds(nn.Linear(4, 4), ops=("attention",))


def test_an_untrained_product_is_named() -> None:
    student = QAT(CONFIGS[0]).quantize(encoder())
    student.eval()
    with pytest.raises(PreconditionNotMetError, match=r"layers\.0\.self_attn"):
        student(proa.to_tensor(X))
