"""Distributions against SciPy, their own moments and numeric integrals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import proa
from proa.distribution import (
    Bernoulli,
    Categorical,
    Distribution,
    Independent,
    Laplace,
    Normal,
    Uniform,
    kl_divergence,
    register_kl,
)
from proa.errors import InvalidArgumentError, ShapeError, UnimplementedError

LOC, SCALE = np.array([0.5, -1.0, 2.0]), np.array([0.3, 1.0, 2.5])
CONTINUOUS = {
    "Normal": (Normal(LOC, SCALE), stats.norm(LOC, SCALE)),
    "Uniform": (Uniform(LOC, LOC + SCALE), stats.uniform(LOC, SCALE)),
    "Laplace": (Laplace(LOC, SCALE), stats.laplace(LOC, SCALE)),
}
PROBS = np.array([0.1, 0.5, 0.85])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_and_moments_equal_scipy(name: str) -> None:
    ours, theirs = CONTINUOUS[name]
    x = LOC + SCALE * np.array([[0.1], [0.6], [0.95]])
    for method, want in [
        (ours.log_prob, theirs.logpdf(x)), (ours.prob, theirs.pdf(x)),
        (ours.probs, theirs.pdf(x)),
    ]:  # fmt: skip
        np.testing.assert_allclose(method(x).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ours.mean.numpy(), theirs.mean(), rtol=1e-6)
    np.testing.assert_allclose(ours.variance.numpy(), theirs.var(), rtol=1e-6)
    np.testing.assert_allclose(ours.stddev.numpy(), theirs.std(), rtol=1e-6)
    np.testing.assert_allclose(ours.entropy().numpy(), theirs.entropy(), rtol=1e-6)
    assert ours.batch_shape == (3,) and ours.event_shape == ()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_are_distributed_so(name: str) -> None:
    proa.seed(4)
    ours, theirs = CONTINUOUS[name]
    x = ours.sample([5000])
    assert x.shape == [5000, 3] and x.stop_gradient
    for i in range(3):
        one = type(theirs.dist)(name=theirs.dist.name)
        args = [a[i] for a in theirs.args]
        assert stats.kstest(x.numpy()[:, i], one(*args).cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", [Normal, Uniform])
def test_a_seed_repeats_its_samples(kind: type) -> None:
    d = kind(0.0, 1.0)
    a, b, c = d.sample([4], seed=7), d.sample([4], seed=7), d.sample([4], seed=8)
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert not np.array_equal(a.numpy(), c.numpy())
    assert d.sample([2, 3]).shape == [2, 3]


@pytest.mark.parametrize("kind", [Normal, Uniform, Laplace])
def test_gradients_flow_through_reparametrised_samples(kind: type) -> None:
    a = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    b = proa.to_tensor([3.0, 4.0], stop_gradient=False)
    x = kind(a, b).rsample([10])
    assert x.shape == [10, 2]
    x.sum().backward()
    assert np.isfinite(a.grad.numpy()).all() and (b.grad.numpy() != 0).all()


@pytest.mark.parametrize("kind", [Normal, Uniform])
def test_gradients_flow_through_plain_samples_as_in_paddle(kind: type) -> None:
    a = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    b = proa.to_tensor([3.0, 5.0], stop_gradient=False)
    x = kind(a, b).sample([10])
    x.sum().backward()
    low, high = a.numpy(), b.numpy()
    if kind is Normal:  # x = a + noise * b
        want = [np.full(2, 10.0), ((x.numpy() - low) / high).sum(0)]
    else:  # x = a + noise * (b - a)
        share = ((x.numpy() - low) / (high - low)).sum(0)
        want = [10 - share, share]
    np.testing.assert_allclose(a.grad.numpy(), want[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b.grad.numpy(), want[1], rtol=1e-4, atol=1e-4)


def test_parameters_may_be_numbers_lists_arrays_and_tensors() -> None:
    for loc in (1, 1.0, [1.0], np.ones(1, "float32"), proa.ones([1])):
        d = Normal(loc, 2.0)
        assert d.sample([3]).shape == [3, *d.batch_shape]
        assert d.log_prob(proa.to_tensor([0.0])).dtype == "float32"
    assert Normal(np.zeros(2), 1.0).mean.dtype == "float64"
    assert Normal([[0.0], [1.0]], [1.0, 2.0, 3.0]).batch_shape == (2, 3)


def _integral(p: Any, q: Any, low: float, high: float) -> Any:
    """KL by the rule of rectangles on a fine grid."""
    x = np.linspace(low, high, 200001)[:, None]
    a, b = p.log_prob(x).numpy(), q.log_prob(x).numpy()
    inside = np.isfinite(a)
    parts = np.exp(a) * np.where(inside, np.where(inside, a, 0) - b, 0)
    return parts.sum(0) * (x[1] - x[0])


@pytest.mark.parametrize(
    "p, q, low, high",
    [
        (Normal(LOC, SCALE), Normal(LOC + 0.5, SCALE * 1.5), -25, 25),
        (Laplace(LOC, SCALE), Laplace(LOC + 0.5, SCALE * 1.5), -60, 60),
        (Uniform(LOC, LOC + 1), Uniform(LOC - 1, LOC + 3), -3, 4),
    ],
)
def test_divergences_equal_their_integrals(
    p: Any, q: Any, low: float, high: float
) -> None:
    want = _integral(p, q, low, high)
    np.testing.assert_allclose(kl_divergence(p, q).numpy(), want, rtol=2e-4)
    np.testing.assert_array_equal(
        p.kl_divergence(q).numpy(), kl_divergence(p, q).numpy()
    )
    np.testing.assert_allclose(p.kl_divergence(p).numpy(), 0, atol=1e-7)


def test_uniform_outside_its_ends() -> None:
    d = Uniform(0.0, 2.0)
    np.testing.assert_array_equal(d.prob([-1.0, 1.0, 3.0]).numpy(), [0, 0.5, 0])
    assert d.log_prob(proa.to_tensor(5.0)).item() == -np.inf
    assert d.kl_divergence(Uniform(0.0, 1.0)).item() == np.inf


def test_categorical_probabilities() -> None:
    weights = np.array([1.0, 3.0, 4.0, 2.0], "float32")
    d = Categorical(weights)
    value = proa.to_tensor([2, 0])
    np.testing.assert_allclose(d.probs(value).numpy(), [0.4, 0.1], rtol=1e-6)
    np.testing.assert_allclose(d.log_prob(value).numpy(), np.log([0.4, 0.1]), rtol=1e-6)
    several = Categorical(np.stack([weights, weights[::-1]]))
    np.testing.assert_allclose(
        several.probs(value).numpy(), [[0.4, 0.1], [0.3, 0.2]], rtol=1e-6
    )
    own = proa.to_tensor([[0], [1]])
    np.testing.assert_allclose(several.probs(own).numpy(), [[0.1], [0.4]], rtol=1e-6)


def test_categorical_entropy_and_divergence_of_logits() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 3, 5))
    p, q = (np.exp(v) / np.exp(v).sum(-1, keepdims=True) for v in (a, b))
    d = Categorical(a)
    np.testing.assert_allclose(d.entropy().numpy(), stats.entropy(p, axis=-1))
    want = stats.entropy(p, q, axis=-1)[:, None]
    np.testing.assert_allclose(d.kl_divergence(Categorical(b)).numpy(), want)


def test_categorical_samples_have_their_frequencies() -> None:
    proa.seed(0)
    weights = np.array([[1.0, 1.0, 2.0], [6.0, 3.0, 1.0]])
    x = Categorical(weights).sample([2000, 2])
    assert x.shape == [2000, 2, 2] and x.dtype == "int64"
    for i in range(2):
        counts = np.bincount(x.numpy()[..., i].ravel(), minlength=3)
        expected = 4000 * weights[i] / weights[i].sum()
        assert stats.chisquare(counts, expected).pvalue > 1e-3
    assert Categorical(weights[0]).sample([3]).shape == [3]
    with pytest.raises(ShapeError, match="logits must be"):
        Categorical(1.0)


def test_bernoulli() -> None:
    proa.seed(1)
    d, theirs = Bernoulli(PROBS), stats.bernoulli(PROBS)
    for k in (0, 1):
        want = theirs.logpmf(k)
        np.testing.assert_allclose(d.log_prob(np.full(3, k)).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(d.entropy().numpy(), theirs.entropy(), rtol=1e-5)
    np.testing.assert_allclose(d.variance.numpy(), theirs.var(), rtol=1e-6)
    x = np.array([-0.5, 0.3, 1.0])
    np.testing.assert_allclose(d.cdf(x).numpy(), theirs.cdf(x), rtol=1e-6)
    mean = d.sample([4000]).numpy().mean(0)
    np.testing.assert_allclose(mean, PROBS, atol=0.04)
    q = np.array([0.3, 0.5, 0.5])
    want = PROBS * np.log(PROBS / q) + (1 - PROBS) * np.log((1 - PROBS) / (1 - q))
    np.testing.assert_allclose(
        d.kl_divergence(Bernoulli(q)).numpy(), want, rtol=1e-5, atol=1e-7
    )
    soft = d.rsample([4000], temperature=0.05).numpy()
    assert ((soft >= 0) & (soft <= 1)).all()
    np.testing.assert_allclose(soft.mean(0), PROBS, atol=0.04)


def test_laplace_quantiles() -> None:
    d, theirs = CONTINUOUS["Laplace"]
    u = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(d.icdf(u).numpy(), theirs.ppf(u), rtol=1e-6)
    x = np.array([0.0, -2.0, 3.0])
    np.testing.assert_allclose(d.cdf(x).numpy(), theirs.cdf(x), rtol=1e-6)


def test_independent_sums_over_its_axes() -> None:
    base = Normal(np.zeros((4, 3)), np.ones((4, 3)))
    d = Independent(base, 1)
    assert d.batch_shape == (4,) and d.event_shape == (3,)
    x = base.sample()
    want = base.log_prob(x).numpy().sum(-1)
    np.testing.assert_allclose(d.log_prob(x).numpy(), want)
    np.testing.assert_allclose(d.entropy().numpy(), base.entropy().numpy().sum(-1))
    assert d.sample([2]).shape == [2, 4, 3]
    with pytest.raises(InvalidArgumentError, match=r"must be in \[1, 2\]"):
        Independent(base, 3)


def test_rules_are_found_by_the_nearest_ancestors() -> None:
    class Mine(Normal):
        pass

    p = Mine(0.0, 1.0)
    want = kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
    assert kl_divergence(p, Normal(1.0, 1.0)).item() == want

    @register_kl(Mine, Mine)
    def rule(a: Any, b: Any) -> str:
        return "mine"

    assert kl_divergence(p, p) == "mine"
    with pytest.raises(UnimplementedError, match="got Normal and Uniform"):
        kl_divergence(Normal(0.0, 1.0), Uniform(0.0, 1.0))
    with pytest.raises(InvalidArgumentError, match="a subclass of Distribution"):
        register_kl(int, Normal)


@pytest.mark.parametrize("what", ["sample", "rsample", "entropy"])
def test_what_a_distribution_does_not_define_is_named(what: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"\[Distribution.{what}\]"):
        getattr(Distribution([2]), what)()
    with pytest.raises(NotImplementedError, match="log_prob"):
        Distribution().probs(1.0)
    for name in ("mean", "variance"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(Distribution(), name)
