"""Learning-rate schedules against torch's and the formulae."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError
from proa.optimizer import lr

from ..torch_reference import torch

T = torch.optim.lr_scheduler


def cyclic(optimizer: Any, *args: Any, **settings: Any) -> Any:
    return T.CyclicLR(optimizer, 0.1, 0.5, *args, cycle_momentum=False, **settings)


def rates(schedule: lr.LRScheduler, count: int = 12) -> list[float]:
    found = []
    for _ in range(count):
        found.append(schedule())
        schedule.step()
    return found


def torch_rates(
    make: Callable[[Any], Any], base: float, count: int = 12
) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], base)
    schedule = make(optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lr.StepDecay(0.5, 3, 0.2), lambda o: T.StepLR(o, 3, 0.2)),
        (lr.MultiStepDecay(0.5, [2, 7], 0.3), lambda o: T.MultiStepLR(o, [2, 7], 0.3)),
        (lr.ExponentialDecay(0.5, 0.9), lambda o: T.ExponentialLR(o, 0.9)),
        (lr.LambdaDecay(0.5, lambda e: 0.95**e),
         lambda o: T.LambdaLR(o, lambda e: 0.95**e)),
        (lr.MultiplicativeDecay(0.5, lambda e: 0.95),
         lambda o: T.MultiplicativeLR(o, lambda e: 0.95)),
        (lr.CosineAnnealingDecay(0.5, 10, 0.01),
         lambda o: T.CosineAnnealingLR(o, 10, 0.01)),
        (lr.PolynomialDecay(0.5, 8, 0.0, 2.0), lambda o: T.PolynomialLR(o, 8, 2.0)),
        (lr.CyclicLR(0.1, 0.5, 3, 2), lambda o: cyclic(o, 3, 2)),
        (lr.CyclicLR(0.1, 0.5, 3, mode="triangular2"),
         lambda o: cyclic(o, 3, mode="triangular2")),
        (lr.LinearLR(0.5, 7, 0.25, 0.75), lambda o: T.LinearLR(o, 0.25, 0.75, 7)),
        (lr.CosineAnnealingWarmRestarts(0.5, 3, 2, 0.1),
         lambda o: T.CosineAnnealingWarmRestarts(o, 3, 2, 0.1)),
        (lr.OneCycleLR(0.5, 20, end_learning_rate=0.5 / 25 / 1e4),
         lambda o: T.OneCycleLR(o, 0.5, 20)),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, lr.LRScheduler) else "",
)  # fmt: skip
def test_schedules_follow_torch(ours: lr.LRScheduler, theirs: Any) -> None:
    np.testing.assert_allclose(rates(ours), torch_rates(theirs, 0.5), rtol=1e-6)


def test_schedules_follow_their_formulae() -> None:
    e = np.arange(12)
    np.testing.assert_allclose(
        rates(lr.NaturalExpDecay(0.5, 0.1)), 0.5 * np.exp(-0.1 * e)
    )
    np.testing.assert_allclose(
        rates(lr.InverseTimeDecay(0.5, 0.1)), 0.5 / (1 + 0.1 * e)
    )
    assert rates(lr.PiecewiseDecay([2, 4], [1.0, 0.5, 0.1]), 6) == [
        1,
        1,
        0.5,
        0.5,
        0.1,
        0.1,
    ]
    noam = rates(lr.NoamDecay(64, 4, 2.0), 8)
    assert noam[0] == 0
    assert noam[6] == pytest.approx(2.0 * 64**-0.5 * min(6**-0.5, 6 * 4**-1.5))
    cyclic = rates(lr.PolynomialDecay(1.0, 4, 0.0, cycle=True), 7)
    np.testing.assert_allclose(cyclic, [1, 0.75, 0.5, 0.25, 0, 1 - 5 / 8, 1 - 6 / 8])


def test_one_cycle_may_be_stepped_after_its_last_rate() -> None:
    # The usual loop takes total_steps rates and steps after each of them.
    schedule = lr.OneCycleLR(0.5, 10)
    assert rates(schedule, 10)[-1] == pytest.approx(0.0001)
    with pytest.raises(InvalidArgumentError, match="there are 10 steps"):
        schedule.step()


@pytest.mark.feature("L105")
def test_warmup_is_followed_by_another_schedule() -> None:
    warm = lr.LinearWarmup(lr.ExponentialDecay(0.5, 0.5), 4, 0.0, 0.4)
    np.testing.assert_allclose(rates(warm, 7), [0, 0.1, 0.2, 0.3, 0.5, 0.25, 0.125])
    assert rates(lr.LinearWarmup(0.7, 2, 0.0, 0.7), 4) == [0, 0.35, 0.7, 0.7]
    p = proa.to_tensor([1.0], stop_gradient=False)
    warm = lr.LinearWarmup(0.5, 2, 0.0, 0.25)
    descent, went = proa.optimizer.SGD(warm, [p]), []
    for _ in range(4):
        before = p.item()
        p.sum().backward()
        descent.step()
        descent.clear_grad()
        warm.step()
        went.append(before - p.item())
    np.testing.assert_allclose(went, [0, 0.125, 0.5, 0.5])


def test_old_spellings_are_taken() -> None:
    assert lr.NaturalExpDecay(0.5, gama=0.1).gamma == 0.1
    warm = lr.LinearWarmup(learing_rate=0.5, warmup_steps=2, start_lr=0.0, end_lr=0.5)
    assert rates(warm, 3) == [0, 0.25, 0.5]


def test_state_keys_name_what_is_saved() -> None:
    for result in (
        lr.StepDecay(0.5, 3),
        lr.ReduceOnPlateau(0.5),
        lr.OneCycleLR(0.5, 20),
    ):
        keys = result.state_keys()
        assert {"last_epoch", "last_lr"} <= set(keys)
        assert list(result.state_dict()) == keys


def test_plateau_follows_torch() -> None:
    measures = [1.0, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    for mode, threshold in (("min", "rel"), ("min", "abs"), ("max", "rel")):
        ours = lr.ReduceOnPlateau(
            0.5, mode, 0.5, 2, threshold_mode=threshold, min_lr=0.1
        )
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
        theirs = T.ReduceLROnPlateau(
            optimizer, mode, 0.5, 2, threshold_mode=threshold, min_lr=0.1
        )
        for value in measures:
            ours.step(proa.to_tensor(value))
            theirs.step(value)
            assert ours() == pytest.approx(optimizer.param_groups[0]["lr"])


def test_a_plateau_needs_a_measure() -> None:
    with pytest.raises(InvalidArgumentError, match="expected metrics"):
        lr.ReduceOnPlateau(0.5).step()


def test_schedules_go_on_from_their_state() -> None:
    for make in (
        lambda: lr.StepDecay(0.5, 3),
        lambda: lr.LinearWarmup(lr.ExponentialDecay(0.5, 0.5), 4, 0.0, 0.4),
    ):
        one, two = make(), make()
        for _ in range(6):
            one.step()
        two.set_state_dict(one.state_dict())
        assert two() == one()
        one.step()
        two.step()
        assert two() == one()


def test_an_optimizer_takes_its_rate_from_a_schedule() -> None:
    schedule = lr.ExponentialDecay(0.4, 0.5)
    p = proa.create_parameter(
        [1], default_initializer=proa.nn.initializer.Constant(1.0)
    )
    optimizer = proa.optimizer.SGD(schedule, [p])
    for expected in (0.6, 0.4, 0.3):
        p.grad = proa.ones([1])
        optimizer.step()
        schedule.step()
        assert p.item() == pytest.approx(expected)
    assert optimizer.get_lr() == pytest.approx(0.05)
    state = optimizer.state_dict()
    fresh = proa.optimizer.SGD(lr.ExponentialDecay(0.4, 0.5), [p])
    fresh.set_state_dict(state)
    assert fresh.get_lr() == pytest.approx(0.05)


@pytest.mark.parametrize(
    "make",
    [lambda: lr.StepDecay(0.1, 0), lambda: lr.NaturalExpDecay(0.1),
     lambda: lr.NaturalExpDecay(0.1, gamma=0.1, gummo=1), lambda: lr.LinearLR(0.1, 0),
     lambda: lr.CosineAnnealingWarmRestarts(0.1, 0), lambda: lr.LinearWarmup(),
     lambda: lr.MultiStepDecay(0.1, [5, 2]),
     lambda: lr.PiecewiseDecay([1], [0.1]), lambda: lr.LinearWarmup(0.1, 0, 0, 1),
     lambda: lr.ExponentialDecay(-1.0, 0.5), lambda: lr.CosineAnnealingDecay(0.1, 0),
     lambda: lr.LambdaDecay(0.1, 3), lambda: lr.NoamDecay(0, 4)],
)  # fmt: skip
def test_invalid_settings_are_rejected(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        make()
    assert math.isfinite(lr.StepDecay(0.1, 2)())


@pytest.mark.parametrize(
    ("make", "epoch", "text"),
    [
        (lambda: lr.InverseTimeDecay(0.1, -0.5), 2, r"gamma=-0\.5, epoch=2"),
        (lambda: lr.ExponentialDecay(0.1, 2.0), 2**62, "exponent=4611686018427387904"),
        (lambda: lr.ExponentialDecay(0.1, 0.0), -1, "base=0.0, exponent=-1"),
        (lambda: lr.PolynomialDecay(0.1, 4, power=-1.0), 4, "base=0.0, exponent=-1.0"),
        (lambda: lr.StepDecay(0.1, 1, gamma=-2.0), 2**62, "base=-2.0"),
        (lambda: lr.MultiplicativeDecay(0.1, lambda e: 1.0), 2**62, "at most 10000000"),
        (lambda: lr.CosineAnnealingWarmRestarts(0.1, 3, 2), math.inf, "got inf"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_schedule_without_a_rate_at_an_epoch_says_so(
    make: Callable[[], lr.LRScheduler], epoch: Any, text: str
) -> None:
    schedule = make()
    with pytest.raises(InvalidArgumentError, match=rf"\[\w+(\.step)?\] .*{text}"):
        schedule.step(epoch)


def test_multiplicative_decay_multiplies_once_for_each_step() -> None:
    called: list[int] = []

    def factor(epoch: int) -> float:
        called.append(epoch)
        return 1 + 1 / epoch

    schedule = lr.MultiplicativeDecay(0.5, factor)
    for _ in range(9):
        schedule.step()
    assert called == list(range(1, 10))
    np.testing.assert_allclose(schedule(), 0.5 * 10)  # 2/1 * 3/2 * … * 10/9
    schedule.step(4)
    np.testing.assert_allclose(schedule(), 0.5 * 5)
    restored = lr.MultiplicativeDecay(0.5, factor)
    restored.set_state_dict(schedule.state_dict())
    restored.step()
    np.testing.assert_allclose(restored(), 0.5 * 6)


def test_restarts_of_one_length_are_found_at_once() -> None:
    schedule = lr.CosineAnnealingWarmRestarts(0.1, 4)
    schedule.step(2**50 + 1)
    np.testing.assert_allclose(schedule(), 0.1 * (1 + math.cos(math.pi / 4)) / 2)
