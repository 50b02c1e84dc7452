"""Schedules by a formula of the epoch, and warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.optimizer.lr.base import LRScheduler

#: Epochs that `MultiplicativeDecay` goes through in one step.
MAX_FACTORS = 10_000_000


def _power(where: str, base: float, exponent: float) -> float:
    """base ** exponent, if that is a finite number."""
    try:
        value = base**exponent
    except ArithmeticError:
        value = math.inf
    if isinstance(value, complex) or math.isinf(value):
        raise InvalidArgumentError(
            f"[{where}] expected base ** exponent to be a finite number, got "
            f"base={base}, exponent={exponent}"
        )
    return float(value)


class NoamDecay(LRScheduler):
    """lr * d_model ** -0.5 * min(epoch ** -0.5, epoch * warmup_steps ** -1.5)."""

    def __init__(
        self,
        d_model: int,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0:
            raise InvalidArgumentError(
                f"[NoamDecay] d_model must be positive, got {d_model}"
            )
        if warmup_steps <= 0:
            raise InvalidArgumentError(
                f"[NoamDecay] warmup_steps must be positive, got {warmup_steps}"
            )
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch = self.last_epoch
        falling = 1.0 if epoch == 0 else epoch**-0.5
        rising = epoch * self.warmup_steps**-1.5
        return float(self.base_lr * self.d_model**-0.5 * min(falling, rising))


class PiecewiseDecay(LRScheduler):
    """values[i] while the epoch is below boundaries[i], then the last value."""

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if len(values) != len(boundaries) + 1:
            raise InvalidArgumentError(
                f"[PiecewiseDecay] expected {len(boundaries) + 1} values, got "
                f"{len(values)}"
            )
        self.boundaries, self.values = list(boundaries), list(values)
        super().__init__(values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.last_epoch < boundary:
                return value
        return self.values[-1]


def _renamed(where: str, name: str, value: Any, old: str, keywords: Any) -> Any:
    """An argument that PaddlePaddle 2.1 spells in another way."""
    value = keywords.pop(old, value)
    if value is None or keywords:
        text = f"got {sorted(keywords)} besides" if keywords else "got none"
        raise InvalidArgumentError(f"[{where}] expected {name}, {text}")
    return value


class NaturalExpDecay(LRScheduler):
    """lr * exp(-gamma * epoch). gamma may be called gama."""

    def __init__(
        self,
        learning_rate: float,
        gamma: float | None = None,
        last_epoch: int = -1,
        verbose: bool = False,
        **old_names: float,
    ) -> None:
        where = type(self).__name__
        self.gamma = float(_renamed(where, "gamma", gamma, "gama", old_names))
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        # exp(709) is the greatest power that a double holds.
        return self.base_lr * math.exp(min(-self.gamma * self.last_epoch, 709.0))


class InverseTimeDecay(NaturalExpDecay):
    """lr / (1 + gamma * epoch)."""

    def get_lr(self) -> float:
        divisor = 1 + self.gamma * self.last_epoch
        if divisor == 0:
            raise InvalidArgumentError(
                "[InverseTimeDecay] expected 1 + gamma * epoch to differ from 0, got "
                f"gamma={self.gamma}, epoch={self.last_epoch}"
            )
        return self.base_lr / divisor


class ExponentialDecay(NaturalExpDecay):
    """lr * gamma ** epoch."""

    def get_lr(self) -> float:
        return self.base_lr * _power("ExponentialDecay", self.gamma, self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From lr to end_lr in decay_steps along (1 - t) ** power; with cycle again and
    again.
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if decay_steps <= 0:
            raise InvalidArgumentError(
                f"[PolynomialDecay] decay_steps must be positive, got {decay_steps}"
            )
        self.decay_steps, self.end_lr = decay_steps, end_lr
        self.power, self.cycle = power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        steps, epoch = self.decay_steps, self.last_epoch
        if self.cycle:
            steps *= max(math.ceil(epoch / steps), 1)
        else:
            epoch = min(epoch, steps)
        left = _power("PolynomialDecay", 1 - epoch / steps, self.power)
        return float((self.base_lr - self.end_lr) * left + self.end_lr)


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps, then a rate or another schedule.

    learning_rate may be called learing_rate.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler | None = None,
        warmup_steps: int = 0,
        start_lr: float = 0.0,
        end_lr: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
        **old_names: float,
    ) -> None:
        learning_rate = _renamed(
            "LinearWarmup", "learning_rate", learning_rate, "learing_rate", old_names
        )
        if warmup_steps <= 0:
            raise InvalidArgumentError(
                f"[LinearWarmup] warmup_steps must be positive, got {warmup_steps}"
            )
        if start_lr > end_lr:
            raise InvalidArgumentError(
                "[LinearWarmup] start_lr must not exceed end_lr, got "
                f"{start_lr} and {end_lr}"
            )
        self.learning_rate: float | LRScheduler = learning_rate
        self.warmup_steps, self.start_lr, self.end_lr = warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            share = self.last_epoch / self.warmup_steps
            return (self.end_lr - self.start_lr) * share + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    set_dict = set_state_dict


class StepDecay(LRScheduler):
    """lr * gamma ** (epoch // step_size)."""

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if step_size <= 0:
            raise InvalidArgumentError(
                f"[StepDecay] step_size must be positive, got {step_size}"
            )
        if gamma >= 1.0:
            raise InvalidArgumentError(
                f"[StepDecay] gamma must be below 1, got {gamma}"
            )
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        reached = self.last_epoch // self.step_size
        return self.base_lr * _power("StepDecay", self.gamma, reached)


class MultiStepDecay(LRScheduler):
    """lr * gamma ** (number of milestones reached)."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if list(milestones) != sorted(set(milestones)):
            raise InvalidArgumentError(
                f"[MultiStepDecay] milestones must increase, got {milestones}"
            )
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        reached = sum(m <= self.last_epoch for m in self.milestones)
        return self.base_lr * _power("MultiStepDecay", self.gamma, reached)


class LambdaDecay(LRScheduler):
    """lr * lr_lambda(epoch)."""

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] lr_lambda must be callable, got {lr_lambda!r}"
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LambdaDecay):
    """lr * lr_lambda(1) * lr_lambda(2) * … * lr_lambda(epoch).

    A step to the next epoch multiplies once; one back begins with lr again.
    """

    #: base_lr, an epoch, and the rate there.
    _known: tuple[float, int, float] | None = None

    def get_lr(self) -> float:
        base, start, rate = self._known or (self.base_lr, 0, self.base_lr)
        if base != self.base_lr or self.last_epoch < start:
            start, rate = 0, self.base_lr
        if self.last_epoch - start > MAX_FACTORS:
            raise InvalidArgumentError(
                f"[MultiplicativeDecay] expected a step of at most {MAX_FACTORS} "
                f"epochs, a factor each, got {self.last_epoch} after {start}"
            )
        for epoch in range(start + 1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        self._known = (self.base_lr, max(self.last_epoch, 0), rate)
        return rate


class CosineAnnealingDecay(LRScheduler):
    """From lr to eta_min along half a cosine in T_max epochs, and back (SGDR, 2017)."""

    def __init__(
        self,
        learning_rate: float,
        T_max: float,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_max <= 0:
            raise InvalidArgumentError(
                f"[CosineAnnealingDecay] T_max must be positive, got {T_max}"
            )
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * share
