"""Row-sparse gradients of embeddings: sums, clipping, lazy and dense updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, nn, optimizer
from proa.nn import functional as F
from proa.tensor.row_sparse import merged, parts

RNG = np.random.RandomState(2)
TABLE = RNG.randn(10, 3).astype(np.float32)
IDS = np.array([[1, 4, 1], [7, 4, 2]])


def table(name: str = "table", value: np.ndarray = TABLE) -> Any:
    p = proa.create_parameter(list(value.shape), "float32", name)
    p.set_value(value)
    return p


def loss_of(weight: Any, sparse: bool, ids: np.ndarray = IDS, **more: Any) -> Any:
    rows = F.embedding(proa.to_tensor(ids), weight, sparse=sparse, **more)
    factors = np.arange(rows.size, dtype=np.float32).reshape(rows.shape)
    return (rows * proa.to_tensor(factors)).sum()


@pytest.mark.feature("L043")
@pytest.mark.parametrize("pad", [None, 4, -6])
def test_gradients_are_row_sparse_and_equal_the_dense_ones(pad: int | None) -> None:
    a, b = table(), table()
    loss_of(a, True, padding_idx=pad).backward()
    loss_of(b, False, padding_idx=pad).backward()
    found = parts(a.grad)
    assert found is not None
    assert parts(b.grad) is None
    expected = IDS.ravel() if pad is None else IDS.ravel()[IDS.ravel() != 4]
    assert found[0].tolist() == expected.tolist()
    assert a.grad.shape == [10, 3]
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    once = parts(merged(a.grad))
    assert once is not None
    assert once[0].tolist() == sorted(set(expected.tolist()))
    np.testing.assert_array_equal(merged(a.grad).numpy(), b.grad.numpy())


@pytest.mark.feature("L043")
def test_gradients_add_up() -> None:
    a, b = table(), table()
    other = np.array([0, 9])
    for weight, sparse in ((a, True), (b, False)):
        (loss_of(weight, sparse) + loss_of(weight, sparse, other)).backward()
        loss_of(weight, sparse, other).backward()
    assert parts(a.grad) is not None
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    (a * 2).sum().backward()  # a dense gradient makes the sum dense
    assert parts(a.grad) is None
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy() + 2)
    loss_of(a, True).backward()
    loss_of(b, False).backward()
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy() + 2)


@pytest.mark.feature("L143")
def test_sums_of_bfloat16_rows() -> None:
    a = table().astype("bfloat16").detach()
    a.stop_gradient = False
    (loss_of(a, True) + loss_of(a, True)).backward()
    b = table()
    (loss_of(b, False) + loss_of(b, False)).backward()
    assert parts(a.grad) is not None
    assert a.grad.dtype.name == "bfloat16"
    got = a.grad.astype("float32").numpy()
    np.testing.assert_allclose(got, b.grad.numpy(), rtol=2**-7)


def test_every_use_of_the_gradient_sees_it_dense() -> None:
    a, b = table(), table()
    for weight, sparse in ((a, True), (b, False)):
        loss_of(weight, sparse).backward()
    g, h = a.grad, b.grad
    np.testing.assert_array_equal((g * 2 + 1).numpy(), (h * 2 + 1).numpy())
    np.testing.assert_array_equal(g[4].numpy(), h[4].numpy())
    assert g.sum().item() == h.sum().item()
    assert str(g) == str(h)
    assert g.tolist() == h.tolist()
    np.testing.assert_array_equal(g.clone().numpy(), h.numpy())
    np.testing.assert_array_equal(g.detach().numpy(), h.numpy())
    x = proa.zeros([10, 3])
    x[...] = g
    x += g
    np.testing.assert_array_equal(x.numpy(), 2 * h.numpy())
    with pytest.raises(TypeError, match="cannot be changed"):
        g[0] = 1.0
    with pytest.raises(ValueError, match="in memory"):
        g.add_(x)


def test_hooks_grad_and_higher_derivatives() -> None:
    a = table()
    seen: list[Any] = []
    a.register_hook(lambda g: seen.append(g.shape))
    loss_of(a, True).backward()
    assert seen == [[10, 3]]
    rows = F.embedding(proa.to_tensor(IDS), a, sparse=True)
    (g,) = proa.grad((rows**3).sum(), a, create_graph=True)
    (h,) = proa.grad((g * g).sum(), a)
    # d/dw of (count 3 w^2)^2, count being how often a row is looked up.
    count = np.bincount(IDS.ravel(), minlength=10)[:, None]
    np.testing.assert_allclose(h.numpy(), 36 * count**2 * TABLE**3, rtol=1e-5)


def test_tables_that_were_computed_take_dense_gradients() -> None:
    a, b = table(), table()
    loss_of(a * 2, True).backward()
    loss_of(b * 2, False).backward()
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


MAKERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p, **k: optimizer.SGD(0.1, p, **k),
    "sgd_decay": lambda p, **k: optimizer.SGD(0.1, p, 0.1, **k),
    "l1": lambda p, **k: optimizer.SGD(0.1, p, proa.regularizer.L1Decay(0.1), **k),
    "momentum": lambda p, **k: optimizer.Momentum(0.1, 0.9, p, **k),
    "adagrad": lambda p, **k: optimizer.Adagrad(0.1, parameters=p, **k),
    "adam": lambda p, **k: optimizer.Adam(0.1, parameters=p, **k),
    "adamw": lambda p, **k: optimizer.AdamW(0.1, parameters=p, **k),
    "lamb": lambda p, **k: optimizer.Lamb(0.1, parameters=p, **k),
}
CLIPS = {
    "none": None,
    "value": nn.ClipGradByValue(2.0),
    "norm": nn.ClipGradByNorm(2.0),
    "global": nn.ClipGradByGlobalNorm(2.0),
}


@pytest.mark.feature("L043")
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("clip", CLIPS)
def test_updates_equal_those_of_dense_gradients(name: str, clip: str) -> None:
    tables = []
    for sparse in (True, False):
        weight = table()
        result = MAKERS[name]([weight], grad_clip=CLIPS[clip])
        for ids in (IDS, IDS + 1, IDS[:1]):
            loss_of(weight, sparse, ids).backward()
            result.step()
            result.clear_grad()
        tables.append(weight.numpy())
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L043")
def test_lazy_adam_leaves_other_rows_alone() -> None:
    weight = table()
    adam = optimizer.Adam(0.1, parameters=[weight], lazy_mode=True)
    reference = table("first")
    dense = optimizer.Adam(0.1, parameters=[reference])
    for w, m, sparse in ((weight, adam, True), (reference, dense, False)):
        loss_of(w, sparse).backward()
        m.step()
        m.clear_grad()
    np.testing.assert_allclose(weight.numpy(), reference.numpy(), rtol=1e-6)
    after = weight.numpy().copy()
    loss_of(weight, True, np.array([0, 0])).backward()
    adam.step()
    np.testing.assert_array_equal(weight.numpy()[1:], after[1:])
    assert (weight.numpy()[0] != after[0]).any()


@pytest.mark.parametrize("clip", ["norm", "global"])
def test_parameters_may_stay_out_of_clipping(clip: str) -> None:
    weight, other = table(), table("other")
    other.need_clip = False
    for w in (weight, other):
        loss_of(w, True).backward()
    pairs = CLIPS[clip]([(weight, weight.grad), (other, other.grad)])  # type: ignore[misc]
    assert np.linalg.norm(pairs[0][1].numpy()) == pytest.approx(2, rel=1e-5)
    np.testing.assert_array_equal(pairs[1][1].numpy(), other.grad.numpy())


@pytest.mark.feature("L043")
def test_layers_train_sparsely_and_in_16_bits() -> None:
    layer = nn.Embedding(1000, 8, sparse=True)
    layer.weight.set_value(proa.ones([1000, 8]))
    result = optimizer.SGD(1.0, layer.parameters())
    layer(proa.to_tensor([3, 3, 5])).sum().backward()
    assert parts(layer.weight.grad) is not None
    result.step()
    assert layer.weight.numpy()[[3, 5, 6], 0].tolist() == [-1, 0, 1]
    result.clear_grad()
    assert layer.weight.grad is None
    low = table("low").astype("bfloat16").detach()
    low.stop_gradient = False
    result = optimizer.Adam(0.1, parameters=[low], lazy_mode=True, multi_precision=True)
    loss_of(low, True).backward()
    result.step()
    (master,) = result.state_dict()["master_weights"].values()
    assert (master.numpy()[[1, 4]] != TABLE[[1, 4]]).all()
    np.testing.assert_allclose(master.numpy()[[0, 9]], TABLE[[0, 9]], rtol=2**-8)


@pytest.mark.feature("L043")
def test_a_sparse_step_takes_no_memory_of_the_tables_size() -> None:
    layer = nn.Embedding(100_000, 16, sparse=True)
    adam = optimizer.Adam(parameters=layer.parameters(), lazy_mode=True)

    def step() -> None:
        layer(proa.to_tensor([3, 50_000, 3])).sum().backward()
        adam.step()
        adam.clear_grad()

    step()  # makes the moments
    _core.reset_peak()
    before = _core.memory_stats()["allocated"]
    step()
    assert _core.memory_stats()["peak"] - before < 100_000
