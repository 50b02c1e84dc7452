"""Random tensors: reproducible, in range, distributed as they say."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError


def test_the_seed_begins_the_stream_anew() -> None:
    proa.seed(7)
    first = [proa.rand([5]).numpy(), proa.randn([5]).numpy()]
    proa.seed(7)
    for expected, again in zip(first, [proa.rand([5]), proa.randn([5])], strict=True):
        np.testing.assert_array_equal(again.numpy(), expected)
    assert not np.array_equal(first[0], proa.rand([5]).numpy())


def test_the_state_can_be_put_back() -> None:
    proa.seed(1)
    proa.rand([3])
    state = proa.get_rng_state()
    expected = proa.randn([4]).numpy()
    proa.set_rng_state(state)
    np.testing.assert_array_equal(proa.randn([4]).numpy(), expected)


@pytest.mark.feature("L015")
def test_uniform_and_normal_have_their_moments() -> None:
    proa.seed(0)
    u = proa.uniform([20000], min=-2.0, max=4.0).numpy()
    assert u.min() >= -2
    assert u.max() < 4
    assert abs(u.mean() - 1) < 0.05
    assert abs(u.std() - 6 / 12**0.5) < 0.05
    n = proa.normal(3.0, 0.5, [20000]).numpy()
    assert abs(n.mean() - 3) < 0.02
    assert abs(n.std() - 0.5) < 0.02
    r = proa.randn([100, 200]).numpy()
    assert r.shape == (100, 200)
    assert abs(r.mean()) < 0.04 and abs(r.std() - 1) < 0.04
    m = proa.normal(proa.to_tensor([0.0, 100.0]), 1.0)
    assert abs(m.numpy()[1] - 100) < 10


@pytest.mark.feature("L015")
def test_integers_and_permutations() -> None:
    proa.seed(0)
    x = proa.randint(3, 7, [1000]).numpy()
    assert x.dtype == np.int64
    assert set(x.tolist()) == {3, 4, 5, 6}
    assert set(proa.randint(2, shape=[100]).numpy().tolist()) == {0, 1}
    assert sorted(proa.randperm(50).tolist()) == list(range(50))
    assert proa.randperm(50).tolist() != list(range(50))
    with pytest.raises(InvalidArgumentError, match="low must be below high"):
        proa.randint(3, 3)


def test_draws_by_probability() -> None:
    proa.seed(0)
    hits = proa.bernoulli(proa.full([10000], 0.3)).numpy()
    assert set(np.unique(hits)) == {0, 1}
    assert abs(hits.mean() - 0.3) < 0.03
    p = proa.to_tensor([0.1, 0.0, 0.6, 0.3])
    drawn = proa.multinomial(p, 5000, replacement=True).numpy()
    share = np.bincount(drawn, minlength=4) / 5000
    np.testing.assert_allclose(share, [0.1, 0, 0.6, 0.3], atol=0.04)
    without = proa.multinomial(proa.ones([4, 6]), 6).numpy()
    assert all(sorted(row) == list(range(6)) for row in without.tolist())
