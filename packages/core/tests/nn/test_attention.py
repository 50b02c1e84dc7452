"""Attention without its matrix of scores: what it equals, keeps and needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, device, jit, nn, static
from proa.errors import InvalidArgumentError

F = nn.functional
RNG = np.random.default_rng(0)


def heads(batch: int, length: int, count: int, width: int) -> proa.Tensor:
    x = proa.to_tensor(RNG.standard_normal((batch, length, count, width), np.float32))
    x.stop_gradient = False
    return x


def attend(q: Any, k: Any, v: Any, mask: Any = 0.0, causal: bool = False) -> Any:
    """The formula in float64."""
    scores = np.einsum("bnhd,bmhd->bhnm", q, k) / np.sqrt(q.shape[-1]) + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhnm,bmhe->bnhe", e / e.sum(-1, keepdims=True), v)


def wide(x: proa.Tensor) -> Any:
    return x.numpy().astype(np.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "bools", "ints", "added"])
def test_the_public_function_is_the_formula(kind: str, causal: bool) -> None:
    q, k, v = heads(2, 6, 3, 4), heads(2, 6, 3, 4), heads(2, 6, 3, 5)
    keep = RNG.random((2, 1, 6, 6)) < 0.7
    keep[..., 0] = True
    added = RNG.standard_normal((1, 3, 1, 6)).astype(np.float32)
    mask, term = {
        "none": (None, 0.0),
        "bools": (keep, np.where(keep, 0, -1e9)),
        "ints": (keep.astype(np.int32), np.where(keep, 0, -1e9)),
        "added": (added, added),
    }[kind]
    given = None if mask is None else proa.to_tensor(mask)
    y = F.scaled_dot_product_attention(q, k, v, given, is_causal=causal)
    want = attend(wide(q), wide(k), wide(v), term, causal)
    np.testing.assert_allclose(y.numpy(), want, atol=2e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_returning_the_weights_does_not_change_the_output(dropout: float) -> None:
    fused = nn.MultiHeadAttention(16, 4, dropout)
    plain = nn.MultiHeadAttention(16, 4, dropout, need_weights=True)
    plain.set_state_dict(fused.state_dict())
    x = proa.to_tensor(RNG.standard_normal((2, 7, 16)).astype(np.float32))
    mask = proa.to_tensor(np.tri(7, dtype=bool))
    results = []
    for layer in (fused, plain):
        proa.seed(3)
        out = layer(x, attn_mask=mask)
        out = out[0] if isinstance(out, tuple) else out
        (out * out).sum().backward()
        results.append([out, *(p.grad for p in layer.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=2e-5)


def test_dropout_is_of_training_alone() -> None:
    q = heads(1, 200, 2, 4)
    ones = proa.ones([1, 200, 2, 1])
    undropped = F.scaled_dot_product_attention(
        q, q, ones, dropout_p=0.5, training=False
    )
    np.testing.assert_allclose(undropped.numpy(), 1, atol=1e-5)
    dropped = F.scaled_dot_product_attention(q, q, ones, dropout_p=0.5).numpy()
    assert dropped.std() > 0.01
    assert abs(dropped.mean() - 1) < 0.05  # what is kept is scaled up
    gone = F.scaled_dot_product_attention(q, q, ones, dropout_p=1.0)
    assert not gone.numpy().any()
    with pytest.raises(InvalidArgumentError, match="must be in"):
        F.scaled_dot_product_attention(q, q, ones, dropout_p=1.5)


@pytest.fixture
def threads() -> Iterator[Any]:
    before = _core.get_num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


@pytest.mark.parametrize("shape", [(1, 300, 1, 20), (3, 140, 7, 8)])
def test_bits_do_not_depend_on_threads_or_the_batch(shape: Any, threads: Any) -> None:
    q, k, v = heads(*shape), heads(*shape), heads(*shape)

    def run(some: slice) -> list[Any]:
        parts = [x[some].detach() for x in (q, k, v)]
        for x in parts:
            x.stop_gradient = False
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        (y * y).sum().backward()
        return [x.numpy() for x in (y, *(x.grad for x in parts))]

    threads(1)
    one = run(slice(None))
    threads(3)
    three = run(slice(None))
    assert all(map(np.array_equal, one, three))
    first = run(slice(0, 1))[0]
    assert np.array_equal(first, one[0][:1])


def test_recorded_attention_has_the_bits_of_eager() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32)
    layer.eval()
    recorded = jit.to_static(
        layer, input_spec=[static.InputSpec([None, None, 16], "float32")]
    )
    for shape in ((2, 7, 16), (1, 140, 16)):
        x = proa.to_tensor(RNG.standard_normal(shape).astype(np.float32))
        assert np.array_equal(recorded(x).numpy(), layer(x).numpy())


def test_gradients_of_gradients_and_of_masks() -> None:
    arrays = [RNG.standard_normal(s) for s in ((1, 3, 2, 2), (1, 4, 2, 2), (3, 4))]

    def penalty(q: Any, k: Any, mask: Any) -> Any:
        tensors = [proa.to_tensor(a, stop_gradient=False) for a in (q, k, mask)]
        y = F.scaled_dot_product_attention(*tensors[:2], tensors[1], tensors[2])
        grads = proa.grad([(y**3).sum()], tensors, create_graph=True)
        return sum((g * g).sum() for g in grads), tensors

    value, tensors = penalty(*arrays)
    value.backward()
    for i, tensor in enumerate(tensors):
        step = RNG.standard_normal(arrays[i].shape)
        moved = [
            [a + s * 1e-5 * step if j == i else a for j, a in enumerate(arrays)]
            for s in (1, -1)
        ]
        slope = (penalty(*moved[0])[0] - penalty(*moved[1])[0]).item() / 2e-5
        assert (tensor.grad.numpy() * step).sum() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_gradients_follow_float32(dtype: str) -> None:
    exact = [heads(2, 150, 2, 16) for _ in range(3)]
    low = [x.detach().astype(dtype) for x in exact]
    for x in low:
        x.stop_gradient = False
    for tensors in (exact, low):
        y = F.scaled_dot_product_attention(*tensors, is_causal=True)
        y.astype("float32").square().sum().backward()
    step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    for a, b in zip(exact, low, strict=True):
        want, got = a.grad.numpy(), b.grad.astype("float32").numpy()
        assert np.abs(got - want).max() < 8 * step * np.abs(want).max()


def test_memory_grows_with_the_length_and_not_its_square() -> None:
    length = 2048
    q, k, v = (heads(1, length, 4, 16) for _ in range(3))
    before = device.memory_allocated()
    device.reset_max_memory_allocated()
    y = F.scaled_dot_product_attention(q, k, v)
    y.sum().backward()
    scores = 4 * 4 * length * length  # bytes, of one matrix
    assert device.max_memory_allocated() - before < scores / 4


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3, 4), (2, 3, 4), (2, 3, 4)],
        [(2, 3, 2, 4), (2, 5, 2, 3), (2, 5, 2, 4)],
        [(2, 3, 2, 4), (2, 5, 2, 4), (2, 4, 2, 4)],
        [(2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 4), (3, 4)],
    ],
)
def test_heads_and_masks_that_do_not_fit_are_refused(shapes: Any) -> None:
    with pytest.raises(ValueError, match="attention"):
        F.scaled_dot_product_attention(*(proa.ones(list(s)) for s in shapes))
