"""Pure bfloat16 on the CPU: initializers, ops and their gradients, layers, word2vec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, amp, nn, optimizer
from proa.nn import functional as F

RNG = np.random.RandomState(0)


def rounded(*shape: int) -> np.ndarray:
    """Normal numbers that bfloat16 holds exactly."""
    x = proa.to_tensor(np.asarray(RNG.randn(*shape), np.float32))
    values: np.ndarray = x.astype("bfloat16").astype("float32").numpy()
    return values


def gradients(
    function: Callable[..., Any], arrays: list[np.ndarray], dtype: str
) -> list[np.ndarray]:
    """The result and the gradients of its weighted sum, in float32."""
    inputs = [proa.to_tensor(a).astype(dtype).detach() for a in arrays]
    for x in inputs:
        x.stop_gradient = False
    y = function(*inputs)
    assert y.dtype.name == dtype
    factors = np.cos(np.arange(y.size, dtype=np.float32)).reshape(y.shape)
    (y.astype("float32") * proa.to_tensor(factors)).sum().backward()
    assert all(x.grad.dtype.name == dtype for x in inputs)
    found = [y, *(x.grad for x in inputs)]
    return [t.detach().astype("float32").numpy() for t in found]


def check(
    function: Callable[..., Any], *shapes: tuple[int, ...], rtol: float = 2.0**-6
) -> None:
    arrays = [rounded(*s) for s in shapes]
    low = gradients(function, arrays, "bfloat16")
    full = gradients(function, arrays, "float32")
    for a, b in zip(low, full, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


@pytest.mark.feature("L138")
@pytest.mark.feature("L139")
@pytest.mark.parametrize(
    ("make", "mean", "std"),
    [
        (lambda: nn.initializer.Constant(0.3), 0.3, 0.0),
        (lambda: nn.initializer.Uniform(-1, 1), 0.0, 3**-0.5),
        (lambda: nn.initializer.Normal(1.0, 0.5), 1.0, 0.5),
        (lambda: nn.initializer.TruncatedNormal(0.0, 1.0), 0.0, 0.88),
        (lambda: nn.initializer.XavierUniform(), 0.0, 0.1),
        (lambda: nn.initializer.KaimingNormal(), 0.0, 0.1 * 2**0.5),
    ],
)
def test_initializers_fill_bfloat16(make: Any, mean: float, std: float) -> None:
    proa.seed(1)
    p = proa.create_parameter([100, 100], "bfloat16", default_initializer=make())
    assert p.dtype.name == "bfloat16"
    values = p.astype("float32").numpy()
    assert values.mean() == pytest.approx(mean, abs=0.03)
    assert values.std() == pytest.approx(std, abs=0.03)


@pytest.mark.feature("L145")
@pytest.mark.feature("L147")
@pytest.mark.parametrize("shape", [(4, 5), (5,), (1, 5), (4, 1), ()])
def test_sums_and_products_with_broadcasting(shape: tuple[int, ...]) -> None:
    check(lambda a, b: a + b, (4, 5), shape)
    check(lambda a, b: a * b, (4, 5), shape)


@pytest.mark.feature("L145")
@pytest.mark.feature("L147")
def test_bfloat16_mixed_with_float32() -> None:
    low = proa.to_tensor(rounded(3, 4)).astype("bfloat16").detach()
    full = proa.to_tensor(rounded(4))
    low.stop_gradient = full.stop_gradient = False
    y = low * full + full
    assert y.dtype.name == "float32"
    y.sum().backward()
    assert (low.grad.dtype.name, full.grad.dtype.name) == ("bfloat16", "float32")
    np.testing.assert_allclose(
        full.grad.numpy(), low.astype("float32").numpy().sum(0) + 3, rtol=1e-5
    )


@pytest.mark.feature("L146")
def test_reshape() -> None:
    check(lambda x: (x * 2).reshape([6, -1]).t() * 3, (3, 4))


@pytest.mark.feature("L150")
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "logsumexp"])
def test_reductions(name: str, axis: Any) -> None:
    if name == "prod" and isinstance(axis, tuple):
        axis = 2
    check(lambda x: getattr(proa, name)(x, axis=axis), (3, 4, 5))


@pytest.mark.feature("L144")
@pytest.mark.parametrize("stride", [1, 2])
def test_transposed_convolution(stride: int) -> None:
    check(
        lambda x, w, b: F.conv2d_transpose(x, w, b, stride=stride, padding=1),
        (2, 3, 6, 6), (3, 4, 3, 3), (4,), rtol=2.0**-5,
    )  # fmt: skip


@pytest.mark.feature("L142")
@pytest.mark.parametrize("sparse", [False, True])
def test_embedding(sparse: bool) -> None:
    ids = proa.to_tensor(np.array([[1, 4, 1], [7, 4, 2]]))
    check(lambda w: F.embedding(ids, w, sparse=sparse), (10, 3))


def run_recurrent(kind: str, direction: str) -> None:
    proa.seed(0)
    net = getattr(nn, kind)(6, 8, direction=direction)
    x = rounded(3, 5, 6)
    results = []
    for dtype in ("bfloat16", "float32"):
        net.to(dtype="bfloat16")  # the same, rounded weights
        net.to(dtype=dtype)
        net.clear_gradients()
        data = proa.to_tensor(x).astype(dtype).detach()
        data.stop_gradient = False
        y, _ = net(data)
        assert y.dtype.name == dtype
        (y.astype("float32") ** 2).sum().backward()
        found = [y, data.grad, *(p.grad for p in net.parameters())]
        results.append([t.detach().astype("float32").numpy() for t in found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.05, atol=0.03 * np.abs(b).max())


@pytest.mark.feature("L148")
@pytest.mark.parametrize("direction", ["forward", "bidirect"])
def test_lstm(direction: str) -> None:
    run_recurrent("LSTM", direction)


@pytest.mark.feature("L149")
@pytest.mark.parametrize("direction", ["forward", "bidirect"])
def test_gru(direction: str) -> None:
    run_recurrent("GRU", direction)


class Word2Vec(nn.Layer):
    """Skip-gram with negative samples (Mikolov et al., 2013)."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.inner = nn.Embedding(words, width, sparse=True)
        self.outer = nn.Embedding(words, width, sparse=True)

    def forward(self, centre: Any, other: Any) -> Any:
        """Logits of "these occur together" for (n,) centres and (n, k) others."""
        return (self.inner(centre).unsqueeze(1) * self.outer(other)).sum(-1)


def train(dtype: str) -> tuple[float, float, int]:
    """First and last loss, and bytes that stay allocated."""
    proa.seed(0)
    rng = np.random.RandomState(0)
    before = _core.memory_stats()["allocated"]
    net = Word2Vec(2000, 64).to(dtype=dtype)
    result = optimizer.SGD(10.0, net.parameters())
    losses = []
    for _ in range(120):
        # Words of one block of ten occur together.
        centre = rng.randint(0, 200, 128)
        near = centre // 10 * 10 + rng.randint(0, 10, 128)
        contexts = rng.randint(0, 200, (128, 4))
        labels = np.tile([1.0, 0, 0, 0, 0], (128, 1)).astype(np.float32)
        others = np.concatenate([near[:, None], contexts], 1)
        logits = net(proa.to_tensor(centre), proa.to_tensor(others))
        loss = F.binary_cross_entropy_with_logits(
            logits.astype("float32"), proa.to_tensor(labels), reduction="sum"
        )
        (loss / 32).backward()
        result.step()
        result.clear_grad()
        losses.append(loss.item() / 128)
    del loss, logits
    used = _core.memory_stats()["allocated"] - before
    return float(np.mean(losses[:5])), float(np.mean(losses[-5:])), used


@pytest.mark.feature("L151")
def test_word2vec_trains_with_half_the_memory() -> None:
    first, last, used = train("bfloat16")
    _, full_last, full_used = train("float32")
    assert last < 0.8 * first
    assert last == pytest.approx(full_last, rel=0.05)
    assert used < 0.6 * full_used


@pytest.mark.feature("L135")
@pytest.mark.feature("L137")
def test_one_call_casts_a_network_to_bfloat16() -> None:
    assert amp.is_bfloat16_supported()
    assert _core.build_info()["isa"] in ("scalar", "avx2", "avx512", "neon", "neondot")
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1D(8), nn.Linear(8, 2))
    result = optimizer.Adam(parameters=net.parameters())
    net, result = amp.decorate(net, result, level="O2", dtype="bfloat16")
    kinds = [p.dtype.name for p in net.parameters()]
    assert kinds == ["bfloat16"] * 2 + ["float32"] * 2 + ["bfloat16"] * 2
    with amp.auto_cast(level="O2", dtype="bfloat16"):
        loss = net(proa.ones([5, 4])).mean()
    loss.backward()
    result.step()
    assert len(result.state_dict()["master_weights"]) == 4
