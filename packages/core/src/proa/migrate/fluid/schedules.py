"""Learning rates that decay with the number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable

from proa.optimizer.lr import LambdaDecay


def _decayed(rate: float, share: Callable[[float], float]) -> LambdaDecay:
    return LambdaDecay(float(rate), lambda step: share(float(step)))


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
