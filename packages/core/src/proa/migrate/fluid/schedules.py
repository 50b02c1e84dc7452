"""Learning rates that decay with the number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa.base.mode import static_builder
from proa.optimizer.lr import LambdaDecay, LRScheduler


class _RunSchedule(LambdaDecay):
    """A schedule whose step is a run of the program that it is made in.

    1.x counted runs within the program; in dynamic mode `step` is to be called.
    """

    feeds_tests = False

    def __init__(self, lr_lambda: Callable[[int], float]) -> None:
        self._has_run = False
        super().__init__(1.0, lr_lambda)
        builder = static_builder()
        if builder is not None:
            builder.add_reader(self)

    def next_feed(self) -> Mapping[str, Any]:
        """Feeds nothing; every run but the first one is a step."""
        if self._has_run:
            self.step()
        self._has_run = True
        return {}


def _decayed(rate: float, share: Callable[[float], float]) -> LambdaDecay:
    return _RunSchedule(lambda step: float(rate) * share(float(step)))


def _rounds(decay_steps: int, staircase: bool) -> Callable[[float], float]:
    def rounds(step: float) -> float:
        found = step / decay_steps
        return float(math.floor(found)) if staircase else found

    return rounds


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> LambdaDecay:
    """learning_rate * decay_rate ** (step / decay_steps), rounded down if staircase."""
    rounds = _rounds(decay_steps, staircase)
    return _decayed(learning_rate, lambda step: float(decay_rate ** rounds(step)))


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> LambdaDecay:
    """learning_rate * exp(-decay_rate * step / decay_steps), likewise."""
    rounds = _rounds(decay_steps, staircase)
    return _decayed(learning_rate, lambda step: math.exp(-decay_rate * rounds(step)))


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> LambdaDecay:
    """learning_rate / (1 + decay_rate * step / decay_steps), likewise."""
    rounds = _rounds(decay_steps, staircase)
    return _decayed(learning_rate, lambda step: 1 / (1 + decay_rate * rounds(step)))


def cosine_decay(
    learning_rate: float, step_each_epoch: int, epochs: int
) -> LambdaDecay:
    """learning_rate * (cos(epoch * pi / epochs) + 1) / 2 by the number of the epoch."""
    rounds = _rounds(step_each_epoch, True)
    return _decayed(
        learning_rate, lambda step: (math.cos(rounds(step) * math.pi / epochs) + 1) / 2
    )


def noam_decay(
    d_model: float, warmup_steps: float, learning_rate: float = 1.0
) -> LambdaDecay:
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), step
    counting from 1 (Vaswani et al., 2017).
    """

    def share(step: float) -> float:
        number = step + 1
        grown = number * float(warmup_steps) ** -1.5
        return float(float(d_model) ** -0.5 * min(number**-0.5, grown))

    return _decayed(learning_rate, share)


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> LambdaDecay:
    """(learning_rate - end) * (1 - step / decay_steps)^power + end, and end afterwards;
    with cycle decay_steps grow with the step instead.
    """

    def rate(step: int) -> float:
        whole = decay_steps * (max(math.ceil(step / decay_steps), 1) if cycle else 1)
        left = max(1 - step / whole, 0.0)
        gap = learning_rate - end_learning_rate
        return float(gap * left**power + end_learning_rate)

    return _RunSchedule(rate)


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> LambdaDecay:
    """The value before the first boundary that the step is below, or the last value."""

    def rate(step: int) -> float:
        pairs = zip(boundaries, values, strict=False)
        return float(next((v for b, v in pairs if step < b), values[len(boundaries)]))

    return _RunSchedule(rate)


def linear_lr_warmup(
    learning_rate: float | LRScheduler,
    warmup_steps: int,
    start_lr: float,
    end_lr: float,
) -> LambdaDecay:
    """From start_lr to end_lr in so many steps, then what learning_rate gives."""

    def rate(step: int) -> float:
        if step < warmup_steps:
            return start_lr + (end_lr - start_lr) * step / warmup_steps
        scheduled = isinstance(learning_rate, LRScheduler)
        return float(learning_rate() if scheduled else learning_rate)  # type: ignore[operator,arg-type]

    return _RunSchedule(rate)
