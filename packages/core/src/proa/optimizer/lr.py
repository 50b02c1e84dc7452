"""Learning-rate schedules. ``step()`` moves on by an epoch (or whatever the caller
counts).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError, NotFoundError

__all__ = [
    "CosineAnnealingDecay", "CyclicLR", "ExponentialDecay", "InverseTimeDecay",
    "LRScheduler", "LambdaDecay", "LinearWarmup", "MultiStepDecay",
    "MultiplicativeDecay", "NaturalExpDecay", "NoamDecay", "OneCycleLR",
    "PiecewiseDecay", "PolynomialDecay", "ReduceOnPlateau", "StepDecay",
]  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


class LRScheduler:
    """The base: subclasses define `get_lr` by ``self.last_epoch`` and ``self.base_lr``.

    Args:
        learning_rate: The rate to begin with.
        last_epoch: The epoch to begin after; -1 begins anew.
        verbose: Whether to print each new rate.
    """

    def __init__(
        self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not _is_number(learning_rate) or learning_rate < 0:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] learning_rate must be a number >= 0, "
                f"got {learning_rate!r}"
            )
        self.base_lr = float(learning_rate)
        self.last_lr = self.base_lr
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        return self.last_lr

    def get_lr(self) -> float:
        """The rate at ``self.last_epoch``."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Move on to the next epoch, or to ``epoch``."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            print(
                f"Epoch {self.last_epoch}: {type(self).__name__} sets the rate "
                f"to {self.last_lr}."
            )

    def state_keys(self) -> list[str]:
        """Attributes that are saved."""
        return ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands."""
        return {key: getattr(self, key) for key in self.state_keys()}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        for key in self.state_keys():
            if key not in state_dict:
                raise NotFoundError(
                    f"[{type(self).__name__}.set_state_dict] the state must have "
                    f"{key!r}, got {list(state_dict)}"
                )
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


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
                f"[PiecewiseDecay] values must be {len(boundaries) + 1}, "
                f"got {len(values)}"
            )
        self.boundaries, self.values = list(boundaries), list(values)
        super().__init__(values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        for boundary, value in zip(self.boundaries, self.values, strict=False):
            if self.last_epoch < boundary:
                return value
        return self.values[-1]


class NaturalExpDecay(LRScheduler):
    """lr * exp(-gamma * epoch)."""

    def __init__(
        self,
        learning_rate: float,
        gamma: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(NaturalExpDecay):
    """lr / (1 + gamma * epoch)."""

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(NaturalExpDecay):
    """lr * gamma ** epoch."""

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma**self.last_epoch)


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
        left = (1 - epoch / steps) ** self.power
        return float((self.base_lr - self.end_lr) * left + self.end_lr)


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps, then a rate or another schedule."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if warmup_steps <= 0:
            raise InvalidArgumentError(
                f"[LinearWarmup] warmup_steps must be positive, got {warmup_steps}"
            )
        if start_lr > end_lr:
            raise InvalidArgumentError(
                "[LinearWarmup] start_lr must not exceed end_lr, got "
                f"{start_lr} and {end_lr}"
            )
        self.learning_rate = learning_rate
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
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


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
        return float(self.base_lr * self.gamma**reached)


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
    """lr * lr_lambda(1) * lr_lambda(2) * … * lr_lambda(epoch)."""

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
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


class OneCycleLR(LRScheduler):
    """Up to max_learning_rate and down to end_learning_rate in total_steps (Smith,
    2018).
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidArgumentError(
                f"[OneCycleLR] anneal_strategy must be cos or linear, "
                f"got {anneal_strategy!r}"
            )
        self.total_steps, self._linear = total_steps, anneal_strategy == "linear"
        low, high = max_learning_rate / divide_factor, max_learning_rate
        up = phase_pct * total_steps - 1
        self._points = [(0.0, low), (up, high)]
        if three_phase:
            self._points.append((2 * phase_pct * total_steps - 2, low))
        self._points.append((total_steps - 1, end_learning_rate))
        super().__init__(low, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch = self.last_epoch
        if epoch >= self.total_steps:
            raise InvalidArgumentError(
                f"[OneCycleLR] there are {self.total_steps} steps, got step {epoch}"
            )
        for (x0, y0), (x1, y1) in zip(self._points, self._points[1:], strict=False):
            if epoch <= x1 or x1 == self._points[-1][0]:
                share = (epoch - x0) / (x1 - x0)
                if self._linear:
                    return y0 + (y1 - y0) * share
                return y1 + (y0 - y1) / 2 * (1 + math.cos(math.pi * share))
        return self._points[-1][1]


class CyclicLR(LRScheduler):
    """Up and down between two rates again and again (Smith, 2015)."""

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        scales: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda x: 1.0, "cycle"),
            "triangular2": (lambda x: 1 / 2.0 ** (x - 1), "cycle"),
            "exp_range": (lambda x: exp_gamma**x, "iterations"),
        }
        if mode not in scales and scale_fn is None:
            raise InvalidArgumentError(
                f"[CyclicLR] mode must be one of {list(scales)}, got {mode!r}"
            )
        self.max_lr, self.up = max_learning_rate, step_size_up
        self.down = step_size_up if step_size_down is None else step_size_down
        own = (scale_fn, scale_mode)
        self.scale_fn, self.scale_mode = scales[mode] if scale_fn is None else own
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        size = self.up + self.down
        cycle = 1 + self.last_epoch // size
        place = self.last_epoch % size
        share = place / self.up if place <= self.up else (size - place) / self.down
        assert self.scale_fn is not None
        counted = cycle if self.scale_mode == "cycle" else self.last_epoch
        span = (self.max_lr - self.base_lr) * share
        return self.base_lr + span * self.scale_fn(counted)


class ReduceOnPlateau(LRScheduler):
    """Multiply by factor when a measure has not improved for more than patience steps.

    Args:
        learning_rate: The rate to begin with.
        mode: Whether "min" or "max" is better.
        factor: What the rate is multiplied by.
        patience: Steps without improvement to put up with.
        threshold: The least improvement that counts.
        threshold_mode: Whether threshold is "rel" or "abs".
        cooldown: Steps after a reduction that do not count.
        min_lr: The least rate.
        epsilon: Reductions below this are left out.
        verbose: Whether to print each new rate.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise InvalidArgumentError(
                "[ReduceOnPlateau] mode must be min or max and threshold_mode rel or "
                f"abs, got {mode!r} and {threshold_mode!r}"
            )
        if factor >= 1.0:
            raise InvalidArgumentError(
                f"[ReduceOnPlateau] factor must be below 1, got {factor}"
            )
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best: float | None = None
        # The base's constructor would call step, which needs a measure here.
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch, self.verbose = 0, verbose

    def state_keys(self) -> list[str]:
        own = ["cooldown_counter", "best", "num_bad_epochs"]
        return [*own, *super().state_keys()]

    def get_lr(self) -> float:
        return self.last_lr

    def _better(self, value: float) -> bool:
        if self.best is None:
            return True
        sign = -1.0 if self.mode == "min" else 1.0
        margin = self.threshold
        if self.threshold_mode == "rel":
            margin *= self.best
            return sign * value > sign * (self.best + sign * margin)
        return sign * value > sign * self.best + margin

    def step(self, metrics: Any = None, epoch: int | None = None) -> None:  # type: ignore[override]  # as in Paddle
        """Move on with the measure of this epoch."""
        if metrics is None:
            raise InvalidArgumentError(
                "[ReduceOnPlateau.step] the measure must be given, got None"
            )
        if isinstance(metrics, Tensor):
            metrics = metrics.item()
        elif hasattr(metrics, "__len__"):
            (metrics,) = metrics
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self._better(float(metrics)):
            self.best, self.num_bad_epochs = float(metrics), 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            reduced = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - reduced > self.epsilon:
                self.last_lr = reduced
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: ReduceOnPlateau sets {reduced}.")
