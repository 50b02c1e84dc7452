"""Histograms, counts, modes and the different elements, against NumPy and SciPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats

import proa
from proa.errors import InvalidArgumentError, ShapeError

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0, 0), (7, -2, 3), (1, 0, 1)])
def test_histogram_counts_as_numpy(dtype: str, bins: int, low: int, high: int):
    a = (RNG.normal(size=(5, 40)) * 2).astype(dtype)
    x = proa.to_tensor(a)
    span = (low, high) if high > low else (a.min(), a.max())
    want = np.histogram(a.astype("float64"), bins, span)[0]
    np.testing.assert_array_equal(x.histogram(bins, low, high).numpy(), want)
    assert proa.histogram(x, bins).dtype == "int64"


def test_histogram_of_few_or_no_elements():
    assert proa.histogram(proa.to_tensor([2.0, 2.0]), 4).tolist() == [0, 0, 2, 0]
    assert proa.histogram(proa.zeros([0]), 3).tolist() == [0, 0, 0]
    with pytest.raises(InvalidArgumentError, match="bins must be positive"):
        proa.histogram(proa.ones([2]), 0)


def test_bincount_as_numpy():
    a = RNG.integers(0, 9, 50)
    w = RNG.normal(size=50)
    x = proa.to_tensor(a)
    np.testing.assert_array_equal(proa.bincount(x).numpy(), np.bincount(a))
    np.testing.assert_array_equal(
        proa.bincount(x, minlength=20).numpy(), np.bincount(a, minlength=20)
    )
    got = proa.bincount(x, weights=proa.to_tensor(w))
    np.testing.assert_allclose(got.numpy(), np.bincount(a, w), rtol=1e-12)
    assert proa.bincount(proa.zeros([0], "int64")).shape == [0]
    with pytest.raises(InvalidArgumentError, match="not be negative"):
        proa.bincount(proa.to_tensor([-1]))
    with pytest.raises(ShapeError, match="weights"):
        proa.bincount(x, weights=proa.ones([3]))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_mode_is_scipys_and_names_the_last_place(axis: int, keepdim: bool):
    a = RNG.integers(0, 4, (6, 7, 8)).astype("float32")
    x = proa.to_tensor(a, stop_gradient=False)
    values, index = proa.mode(x, axis, keepdim)
    want = scipy.stats.mode(a, axis, keepdims=True).mode
    last = np.flip((a == want), axis).argmax(axis)
    last = a.shape[axis] - 1 - last
    if not keepdim:
        want = want.squeeze(axis)
    else:
        last = np.expand_dims(last, axis)
    np.testing.assert_array_equal(values.numpy(), want)
    np.testing.assert_array_equal(index.numpy(), last)
    values.sum().backward()
    assert float(x.grad.sum()) == want.size


UNIQUE_ON = [
    np.array([3, 1, 2, 1, 3]),
    np.array([[1.5, 0], [1.5, 0], [0, 2]]),
    np.zeros((0,), "int32"),
    np.array(4.0),
]


@pytest.mark.parametrize("a", UNIQUE_ON, ids=lambda a: str(a.shape))
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_unique_with_all_it_can_return(a: np.ndarray, dtype: str):
    got = proa.unique(proa.to_tensor(a), True, True, True, dtype=dtype)
    for g, w in zip(got, np.unique(a, True, True, True), strict=True):
        np.testing.assert_array_equal(g.numpy(), w.ravel())
    assert all(g.dtype == dtype for g in got[1:])
    np.testing.assert_array_equal(proa.unique(proa.to_tensor(a)).numpy(), np.unique(a))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_entries_along_an_axis(axis: int):
    a = RNG.integers(0, 2, (6, 5, 2))
    got = proa.unique(proa.to_tensor(a), True, True, True, axis=axis)
    want = np.unique(a, True, True, True, axis=axis)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy().ravel(), w.ravel())
    np.testing.assert_array_equal(got[0].numpy(), want[0])


def test_unique_sends_gradients_to_first_occurrences():
    x = proa.to_tensor([2.0, 1.0, 2.0], stop_gradient=False)
    (proa.unique(x) * proa.to_tensor([10.0, 20.0])).sum().backward()
    assert x.grad.tolist() == [20.0, 10.0, 0.0]


def test_unique_consecutive():
    x = proa.to_tensor([1, 1, 2, 2, 3, 1, 1])
    values, inverse, counts = proa.unique_consecutive(x, True, True)
    assert values.tolist() == [1, 2, 3, 1]
    assert inverse.tolist() == [0, 0, 1, 1, 2, 3, 3]
    assert counts.tolist() == [2, 2, 1, 2]
    rows = proa.to_tensor([[1, 2], [1, 2], [2, 1]])
    assert proa.unique_consecutive(rows, axis=0).tolist() == [[1, 2], [2, 1]]
    assert proa.unique_consecutive(rows, axis=1).shape == [3, 2]


def test_multiplex_takes_each_row_from_the_tensor_named():
    a = RNG.normal(size=(3, 4, 2))
    inputs = [proa.to_tensor(m, stop_gradient=False) for m in a]
    index = np.array([[2], [0], [1], [0]], "int32")
    y = proa.multiplex(inputs, proa.to_tensor(index))
    want = np.stack([a[k, i] for i, k in enumerate(index.ravel())])
    np.testing.assert_array_equal(y.numpy(), want)
    y.sum().backward()
    assert inputs[2].grad.numpy().sum() == 2


def test_shard_index_keeps_the_indices_of_one_shard():
    x = proa.to_tensor([[16], [1], [10], [9]])
    assert proa.shard_index(x, 20, 2, 0).tolist() == [[-1], [1], [-1], [9]]
    assert x.shard_index(20, 2, 1, ignore_value=-5).tolist() == [[6], [-5], [0], [-5]]
    with pytest.raises(InvalidArgumentError, match=r"shard_id must be in \[0, 2\)"):
        proa.shard_index(x, 20, 2, 2)


def test_counting_records(tmp_path: Any):
    def count(x: Any) -> Any:
        return proa.histogram(x, 4, -1, 1), proa.mode(x, 0)[0]

    a = RNG.normal(size=(7, 3)).astype("float32")
    x = proa.to_tensor(a)
    static = proa.jit.to_static(count)
    with proa.no_grad(), warnings.catch_warnings():
        for got, want in zip(static(x), count(x), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())
