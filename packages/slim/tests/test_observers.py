"""Observers against plain NumPy and the definitions they cite."""

import numpy as np
import pytest
from scipy.special import kl_div

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim import QuantConfig
from proa_slim.quant.scales import activation_observer, weight_scale

RNG = np.random.default_rng(7)


def observed(config: QuantConfig, *batches: np.ndarray) -> float:
    observer = activation_observer(config)
    for batch in batches:
        observer.observe(batch.astype(np.float32))
    return observer.scale()


def test_abs_max_is_the_greatest_magnitude_of_all_batches():
    scale = observed(
        QuantConfig(activation="abs_max"), np.array([1.0, -4.0]), np.array([2.0])
    )
    assert scale == pytest.approx(4.0 / 127)


def test_moving_average_is_corrected_for_its_start():
    config = QuantConfig(activation="moving_average", moving_rate=0.5)
    # (0.25 * 2 + 0.5 * 4) / 0.75
    assert observed(config, np.array([2.0]), np.array([-4.0])) == pytest.approx(
        (2.5 / 0.75) / 127
    )


@pytest.mark.feature("L467")
def test_kl_cuts_an_outlier_that_abs_max_keeps():
    values = np.append(RNG.standard_normal(100_000), 100.0)
    kl = observed(QuantConfig(activation="kl"), values) * 127
    assert 2.5 < kl < 10.0


def test_kl_leaves_out_the_zeros_of_a_relu():
    values = np.maximum(RNG.standard_normal(200_000), 0)
    with_zeros = observed(QuantConfig(activation="kl"), values)
    without = observed(QuantConfig(activation="kl"), values[values > 0])
    assert with_zeros == without
    assert with_zeros * 127 > 2.0


def test_kl_keeps_the_full_range_of_a_uniform_distribution():
    values = RNG.uniform(0, 1, 200_000)
    assert observed(QuantConfig(activation="kl"), values) * 127 == pytest.approx(
        1.0, rel=0.02
    )


@pytest.mark.feature("L467")
def test_kl_divergence_is_that_of_scipy():
    from proa_slim.quant.histograms import _divergence

    counts = RNG.integers(1, 100, 512).astype(float)
    n = 256
    p = counts[:n].copy()
    p[-1] += counts[n:].sum()
    q = np.repeat(counts[:n].reshape(128, 2).mean(1), 2)
    want = kl_div(p / counts.sum(), q / counts.sum()).sum()
    assert _divergence(counts, n) == pytest.approx(want, rel=1e-9)


def test_kl_keeps_the_range_of_values_with_gaps_between_them():
    """Pixels of 17 greys: clamped to the least of them, P and Q would be alike."""
    values = RNG.choice(np.arange(1, 9) / 8, 20_000, p=[0.1] * 7 + [0.3])
    assert observed(QuantConfig(activation="kl"), values) * 127 == pytest.approx(1.0)


def test_a_wider_batch_widens_the_histogram():
    first, second = RNG.uniform(0, 1, 50_000), RNG.uniform(0, 4, 50_000)
    together = observed(QuantConfig(activation="kl"), first, second)
    assert together * 127 == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("kind", ["abs_max", "moving_average", "kl"])
def test_no_data_is_an_error_and_all_zeros_are_not(kind):
    with pytest.raises(PreconditionNotMetError, match="at least one observed batch"):
        activation_observer(QuantConfig(activation=kind)).scale()
    assert observed(QuantConfig(activation=kind), np.zeros(8)) == 1.0


@pytest.mark.parametrize("kind", ["abs_max", "moving_average", "kl"])
def test_infinities_and_nan_do_not_count(kind):
    clean = RNG.standard_normal(1000)
    dirty = np.concatenate([clean, [np.inf, -np.inf, np.nan]])
    config = QuantConfig(activation=kind)
    assert observed(config, dirty) == observed(config, clean)


def test_weight_scales_per_channel_and_per_tensor():
    weight = RNG.standard_normal((4, 3, 2, 2)).astype(np.float32)
    weight[2] = 0
    per_channel = weight_scale(weight, 0, "channel_abs_max")
    expect = np.abs(weight).max((1, 2, 3)) / 127
    expect[2] = 1.0
    np.testing.assert_allclose(per_channel, expect, rtol=1e-6)
    whole = weight_scale(weight, 0, "abs_max")
    np.testing.assert_allclose(whole, [np.abs(weight).max() / 127], rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"activation": "mean"}, {"weight": "kl"}, {"moving_rate": 1.0}, {"bins": 4}],
)
def test_a_config_names_the_field_it_rejects(wrong):
    with pytest.raises(
        InvalidArgumentError, match=rf"\[QuantConfig\] {next(iter(wrong))}"
    ):
        QuantConfig(**wrong)
