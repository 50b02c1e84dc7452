"""Schedules that go up and down."""

from __future__ import annotations

import math
from collections.abc import Callable

from proa.errors import InvalidArgumentError
from proa.optimizer.lr.base import LRScheduler


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
        if divide_factor <= 0:
            raise InvalidArgumentError(
                f"[OneCycleLR] divide_factor must be positive, got {divide_factor}"
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
        if epoch > self.total_steps:
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
        if self.up < 1 or self.down < 1:
            raise InvalidArgumentError(
                "[CyclicLR] expected step_size_up and step_size_down of at least 1, "
                f"got {self.up} and {self.down}"
            )
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


class LinearLR(LRScheduler):
    """The rate times a factor that goes from start_factor to end_factor in total_steps.

    Args:
        learning_rate: The rate.
        total_steps: Steps until end_factor.
        start_factor: The factor to begin with, in (0, 1].
        end_factor: The factor at the end, in [0, 1].
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if total_steps <= 0:
            raise InvalidArgumentError(
                f"[LinearLR] total_steps must be positive, got {total_steps}"
            )
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise InvalidArgumentError(
                "[LinearLR] start_factor must be in (0, 1] and end_factor in [0, 1], "
                f"got {start_factor} and {end_factor}"
            )
        self.total_steps = total_steps
        self.start_factor, self.end_factor = start_factor, end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        change = self.end_factor - self.start_factor
        return self.base_lr * (self.start_factor + change * share)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the rate to eta_min in T_0 epochs, begun again each time for
    T_mult times as long (SGDR: Loshchilov & Hutter, 2017).

    Args:
        learning_rate: The rate that each run begins with.
        T_0: Epochs of the first run.
        T_mult: What each run is longer by than the last.
        eta_min: The least rate.
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if value < 1 or value != int(value):
                raise InvalidArgumentError(
                    f"[CosineAnnealingWarmRestarts] {name} must be an int >= 1, "
                    f"got {value!r}"
                )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        since, length = float(self.last_epoch), self.T_0
        if self.T_mult == 1:
            since %= length
        while since >= length:
            since, length = since - length, length * self.T_mult
        share = (1 + math.cos(math.pi * since / length)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * share
