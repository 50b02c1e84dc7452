"""Optimizers and schedules against their formulas in NumPy, several steps long.

What other tests compare with torch, where it is installed, is compared here with
the formulas of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa.optimizer import lr

RNG = np.random.default_rng(2)
START = RNG.normal(size=(4, 3))
GRADS = RNG.normal(size=(6, 4, 3))

Rule = Callable[[Any, Any, dict[str, Any], int], Any]


def _trained(optimizer: Callable[[Any], Any], dtype: str = "float64") -> Any:
    p = proa.create_parameter([4, 3], dtype)
    p.set_value(START.astype(dtype))
    result = optimizer([p])
    for g in GRADS:
        p.grad = proa.to_tensor(g.astype(dtype))
        result.step()
        result.clear_grad()
    return p.numpy()


def _followed(rule: Rule) -> Any:
    """The weights after the rule's steps; it keeps what it likes in a dict."""
    w, state = START.copy(), {}
    for t, g in enumerate(GRADS, 1):
        w = rule(w, g, state, t)
    return w


def _sgd(rate: float, decay: float = 0.0) -> Rule:
    return lambda w, g, s, t: w - rate * (g + decay * w)


def _momentum(rate: float, mu: float, decay: float = 0.0, ahead: bool = False) -> Rule:
    def rule(w: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + decay * w
        v = s["v"] = mu * s.get("v", 0) + g
        return w - rate * (g + mu * v if ahead else v)

    return rule


def _adam(
    rate: float, one: float, two: float, eps: float, l2: float = 0.0, own: float = 0.0
) -> Rule:
    """Kingma and Ba, 2014; `own` is the decay of Loshchilov and Hutter, 2017."""

    def rule(w: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + l2 * w
        m = s["m"] = one * s.get("m", 0) + (1 - one) * g
        v = s["v"] = two * s.get("v", 0) + (1 - two) * g * g
        step = m / (1 - one**t) / (np.sqrt(v / (1 - two**t)) + eps)
        return w * (1 - rate * own) - rate * step

    return rule


def _adagrad(rate: float, eps: float, decay: float, first: float) -> Rule:
    def rule(w: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + decay * w
        total = s["total"] = s.get("total", first) + g * g
        return w - rate * g / (np.sqrt(total) + eps)

    return rule


def _adamax(rate: float, one: float, two: float, eps: float, decay: float) -> Rule:
    """Kingma and Ba, 2014, with eps where Paddle's documents have it."""

    def rule(w: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + decay * w
        m = s["m"] = one * s.get("m", 0) + (1 - one) * g
        u = s["u"] = np.maximum(two * s.get("u", 0) + eps, abs(g))
        return w - rate / (1 - one**t) * m / u

    return rule


def _adadelta(rate: float, rho: float, eps: float, decay: float) -> Rule:
    """Zeiler, 2012."""

    def rule(w: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + decay * w
        a = s["a"] = rho * s.get("a", 0) + (1 - rho) * g * g
        step = np.sqrt(s.get("b", 0) + eps) / np.sqrt(a + eps) * g
        s["b"] = rho * s.get("b", 0) + (1 - rho) * step * step
        return w - rate * step

    return rule


optimizers = proa.optimizer
CASES: dict[str, tuple[Callable[[Any], Any], Rule]] = {
    "sgd": (lambda p: optimizers.SGD(0.1, p), _sgd(0.1)),
    "sgd_decay": (lambda p: optimizers.SGD(0.1, p, weight_decay=0.01), _sgd(0.1, 0.01)),
    "momentum": (lambda p: optimizers.Momentum(0.1, 0.9, p), _momentum(0.1, 0.9)),
    "nesterov": (
        lambda p: optimizers.Momentum(
            0.1, 0.9, p, True, proa.regularizer.L2Decay(0.05)
        ),
        _momentum(0.1, 0.9, 0.05, ahead=True),
    ),
    "adam": (
        lambda p: optimizers.Adam(0.01, parameters=p),
        _adam(0.01, 0.9, 0.999, 1e-8),
    ),
    "adam_decay": (
        lambda p: optimizers.Adam(0.01, 0.8, 0.99, 1e-6, p, 0.1),
        _adam(0.01, 0.8, 0.99, 1e-6, l2=0.1),
    ),
    "adamw": (
        lambda p: optimizers.AdamW(0.01, parameters=p, weight_decay=0.1),
        _adam(0.01, 0.9, 0.999, 1e-8, own=0.1),
    ),
    "adagrad": (
        lambda p: optimizers.Adagrad(0.1, 1e-6, p, 0.01, initial_accumulator_value=0.1),
        _adagrad(0.1, 1e-6, 0.01, 0.1),
    ),
    "adamax": (
        lambda p: optimizers.Adamax(0.01, parameters=p, weight_decay=0.1),
        _adamax(0.01, 0.9, 0.999, 1e-8, 0.1),
    ),
    "adadelta": (
        lambda p: optimizers.Adadelta(0.5, 1e-6, 0.9, p, 0.01),
        _adadelta(0.5, 0.9, 1e-6, 0.01),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_steps_follow_their_formula(name: str, dtype: str) -> None:
    make, rule = CASES[name]
    near = {"rtol": 1e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-9}
    np.testing.assert_allclose(_trained(make, dtype), _followed(rule), **near)


def test_groups_have_settings_of_their_own() -> None:
    def make(p: Any) -> Any:
        plain = {"params": p, "momentum": 0.0}
        return optimizers.Momentum(0.1, parameters=[plain])

    np.testing.assert_allclose(_trained(make), _followed(_sgd(0.1)), rtol=1e-9)
    slow = lambda p: optimizers.Momentum(  # noqa: E731
        0.1, parameters=[{"params": p, "learning_rate": 0.5, "weight_decay": 0.2}]
    )
    want = _followed(_momentum(0.05, 0.9, 0.2))
    np.testing.assert_allclose(_trained(slow), want, rtol=1e-9)


@pytest.mark.parametrize("decays", [True, False])
def test_adamw_decays_and_scales_by_parameter(decays: bool) -> None:
    def make(p: Any) -> Any:
        return optimizers.AdamW(
            0.01, parameters=p, weight_decay=0.5,
            apply_decay_param_fun=lambda name: decays,
            lr_ratio=lambda p: 1.0 if decays else 0.5,
        )  # fmt: skip

    rule = _adam(0.01 if decays else 0.005, 0.9, 0.999, 1e-8, own=0.5 * decays)
    np.testing.assert_allclose(_trained(make), _followed(rule), rtol=1e-9)


# -- schedules ------------------------------------------------------------------------
E = np.arange(12)


def _between(lowest: float, highest: float, share: Any) -> Any:
    return lowest + (highest - lowest) * np.asarray(share)


def _cosine(share: Any) -> Any:
    return (1 + np.cos(np.pi * np.asarray(share))) / 2


def _cycle(up: int, down: int) -> Iterator[tuple[int, float]]:
    """(number of the cycle, how far up) of each step."""
    for e in E:
        k, at = divmod(int(e), up + down)
        yield k, at / up if at <= up else (up + down - at) / down


def _one_cycle(steps: int, highest: float) -> Any:
    """Smith and Topin, 2017: up for 30 % of the steps, then down, by cosines."""
    first, last = highest / 25, highest / 25 / 1e4
    top = 0.3 * steps - 1
    up, down = E / top, (E - top) / (steps - 1 - top)
    rise = _between(highest, first, _cosine(up))
    return np.where(top >= E, rise, _between(last, highest, _cosine(down)))


#: Cosines over 3, then 6 steps (then 12): where each of the 12 is in its period.
RESTARTS = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1, 2]) / np.repeat(
    [3, 6, 12], [3, 6, 3]
)
SCHEDULES: dict[str, tuple[Callable[[], Any], Any]] = {
    "step": (lambda: lr.StepDecay(0.5, 3, 0.2), 0.5 * 0.2 ** (E // 3)),
    "multi_step": (
        lambda: lr.MultiStepDecay(0.5, [2, 7], 0.3),
        0.5 * 0.3 ** ((E >= 2) * 1.0 + (E >= 7)),
    ),
    "exponential": (lambda: lr.ExponentialDecay(0.5, 0.9), 0.5 * 0.9**E),
    "lambda": (lambda: lr.LambdaDecay(0.5, lambda e: 0.95**e), 0.5 * 0.95**E),
    "multiplicative": (
        lambda: lr.MultiplicativeDecay(0.5, lambda e: 0.95),
        0.5 * 0.95**E,
    ),
    # Loshchilov and Hutter, 2016; beyond the period the cosine rises again.
    "cosine": (
        lambda: lr.CosineAnnealingDecay(0.5, 10, 0.01),
        _between(0.01, 0.5, _cosine(E / 10)),
    ),
    "restarts": (
        lambda: lr.CosineAnnealingWarmRestarts(0.5, 3, 2, 0.1),
        _between(0.1, 0.5, _cosine(RESTARTS)),
    ),
    "polynomial": (
        lambda: lr.PolynomialDecay(0.5, 8, 0.0, 2.0),
        0.5 * (1 - np.minimum(E, 8) / 8) ** 2,
    ),
    "cyclic": (
        lambda: lr.CyclicLR(0.1, 0.5, 3, 2),
        [_between(0.1, 0.5, share) for _, share in _cycle(3, 2)],
    ),
    "cyclic_halved": (
        lambda: lr.CyclicLR(0.1, 0.5, 3, mode="triangular2"),
        [_between(0.1, 0.5, share / 2**k) for k, share in _cycle(3, 3)],
    ),
    "linear": (
        lambda: lr.LinearLR(0.5, 7, 0.25, 0.75),
        0.5 * _between(0.25, 0.75, np.minimum(E, 7) / 7),
    ),
    "one_cycle": (
        lambda: lr.OneCycleLR(0.5, 20, end_learning_rate=0.5 / 25 / 1e4),
        _one_cycle(20, 0.5),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_follows_its_formula(name: str) -> None:
    make, want = SCHEDULES[name]
    schedule, found = make(), []
    for _ in E:
        found.append(schedule())
        schedule.step()
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("mode", "threshold", "want"),
    [
        # 0.9 is new; its third repetition is one too many. So it is of 0.5.
        (
            "min",
            "rel",
            [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125],
        ),
        (
            "min",
            "abs",
            [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125],
        ),
        # Nothing is above the first: every third is one too many, down to the least.
        (
            "max",
            "rel",
            [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.1, 0.1],
        ),
    ],
)
def test_a_plateau_halves_the_rate(
    mode: str, threshold: str, want: list[float]
) -> None:
    schedule = lr.ReduceOnPlateau(
        0.5, mode, 0.5, 2, threshold_mode=threshold, min_lr=0.1
    )
    rates = []
    for value in [1.0, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]:
        schedule.step(proa.to_tensor(value))
        rates.append(schedule())
    assert rates == pytest.approx(want)
