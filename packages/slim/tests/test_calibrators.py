"""Calibrators against SciPy, NumPy and the definitions they cite."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from proa.errors import InvalidArgumentError, UnimplementedError
from proa_slim import QuantConfig
from proa_slim.quant.scales import ActivationScale, activation_observer, weight_scale

RNG = np.random.default_rng(11)
LAPLACE = RNG.laplace(0, 1, (64, 2000)).astype(np.float32)


def threshold(config: QuantConfig, *batches: np.ndarray) -> float:
    observer = activation_observer(config)
    for batch in batches:
        observer.observe(batch.astype(np.float32))
    return observer.scale() * 127


def rounded(x: np.ndarray, limit: float) -> np.ndarray:
    step = limit / 127
    return np.clip(np.rint(x / step), -127, 127) * step


def test_avg_is_the_mean_of_the_samples_maxima_however_batches_are_split():
    want = np.abs(LAPLACE).max(axis=1).mean()
    config = QuantConfig("avg")
    assert threshold(config, LAPLACE) == pytest.approx(want, rel=1e-6)
    split = np.split(LAPLACE, [5, 6, 40])
    assert threshold(config, *split) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("percent", [0.99, 0.999, 0.9999])
def test_hist_is_the_quantile_of_the_magnitudes(percent):
    config = QuantConfig("hist", hist_percent=percent)
    want = np.quantile(np.abs(LAPLACE), percent)
    bin_width = np.abs(LAPLACE).max() / 1024
    assert abs(threshold(config, LAPLACE) - want) < 2 * bin_width


def test_hist_counts_zeros_and_keeps_a_range_if_the_quantile_is_zero():
    half = np.concatenate([np.zeros(10_000), np.linspace(0, 1, 10_001)[1:]])
    got = threshold(QuantConfig("hist", hist_percent=0.75), half)
    assert got == pytest.approx(np.quantile(half, 0.75), abs=1e-3)
    assert threshold(QuantConfig("hist", hist_percent=0.25), half) > 0


def test_mse_minimizes_the_square_error():
    def error(limit):
        return ((LAPLACE - rounded(LAPLACE, limit)) ** 2).mean()

    got = threshold(QuantConfig("mse"), LAPLACE)
    best = min(error(t) for t in np.linspace(1, np.abs(LAPLACE).max(), 200))
    assert error(got) <= best * 1.01
    assert got < 0.9 * np.abs(LAPLACE).max()


def test_emd_minimizes_the_wasserstein_distance():
    values = np.abs(LAPLACE).ravel()[:20_000]

    def distance(limit):
        return wasserstein_distance(values, rounded(values, limit))

    got = threshold(QuantConfig("emd"), values)
    best = min(distance(t) for t in np.linspace(1, values.max(), 100))
    assert distance(got) <= best * 1.02
    assert got < 0.9 * values.max()


@pytest.mark.parametrize("kind", ["hist", "mse", "emd", "kl"])
def test_a_histogram_does_not_depend_on_how_batches_are_split(kind):
    config = QuantConfig(kind)
    whole = threshold(config, LAPLACE)
    # The first batch has the greatest value, so that bins are the same.
    order = np.argsort(-np.abs(LAPLACE).max(axis=1))
    split = np.split(LAPLACE[order], [1, 7, 30])
    assert threshold(config, *split) == pytest.approx(whole, rel=1e-6)


@pytest.mark.feature("L467")
def test_kl_keeps_a_frequent_background_inside_the_range():
    """Normalised images: the bin of the background looked best as the last one."""
    pixels = np.where(RNG.random(50_000) < 0.5, -0.81, RNG.uniform(-0.8, 2.0, 50_000))
    assert threshold(QuantConfig("kl"), pixels) == pytest.approx(2.0, rel=0.05)


def test_asymmetric_scales_reach_from_the_minimum_to_the_maximum():
    scale = ActivationScale(QuantConfig("abs_max", symmetric=False))
    scale.observe(np.array([-1.0, 0.5], np.float32))
    scale.observe(np.array([5.0], np.float32))
    step, offset = scale.scale()
    assert step == pytest.approx(6 / 254)
    assert offset == pytest.approx(2.0, abs=step / 2)
    assert offset / step == pytest.approx(round(offset / step))  # 0 is exact
    positive = ActivationScale(QuantConfig("abs_max", symmetric=False))
    positive.observe(np.array([0.0, 6.0], np.float32))
    assert positive.scale() == pytest.approx((6 / 254, 127 * 6 / 254))


def test_asymmetric_ranges_have_no_calibrator_of_symmetric_levels():
    with pytest.raises(UnimplementedError, match="symmetric=False needs an activation"):
        QuantConfig("kl", symmetric=False)
    with pytest.raises(InvalidArgumentError, match="hist_percent must be in"):
        QuantConfig("hist", hist_percent=0.0)


@pytest.mark.parametrize("levels", [7, 127])
@pytest.mark.parametrize("kind", ["mse", "channel_mse"])
def test_mse_scales_of_weights_beat_those_of_abs_max(kind, levels):
    weight = RNG.laplace(0, 1, (6, 400)).astype(np.float32)

    def error(scale):
        step = np.broadcast_to(scale, (6,))[:, None]
        q = np.clip(np.rint(weight / step), -levels, levels) * step
        return ((weight - q) ** 2).sum(axis=1)

    found = error(weight_scale(weight, 0, kind, levels))
    plain = error(weight_scale(weight, 0, kind.replace("mse", "abs_max"), levels))
    assert found.sum() <= plain.sum()
    if kind == "channel_mse":
        assert (found <= plain * (1 + 1e-6)).all()
        if levels == 7:
            assert (found < 0.9 * plain).all()
