"""Callbacks that go by a measure of the evaluations."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.hapi.callbacks.base import Callback, Logs


def _better(where: str, mode: str, monitor: str) -> tuple[Callable[..., bool], float]:
    """How two values of a measure compare, and the worst there is."""
    if mode not in ("auto", "min", "max"):
        raise InvalidArgumentError(
            f"[{where}] mode must be auto, min or max, got {mode!r}"
        )
    rising = mode == "max" or (mode == "auto" and "acc" in monitor)
    if rising:
        return lambda a, b, margin: a - margin > b, -np.inf
    return lambda a, b, margin: a + margin < b, np.inf


def _single(value: Any) -> float:
    while isinstance(value, (list, tuple, np.ndarray)):
        value = value[0]
    return float(value)


class EarlyStopping(Callback):
    """Stop when a measure has not improved for more than patience evaluations.

    Args:
        monitor: The measure's name.
        mode: Whether "min" or "max" is better; "auto" goes by the name.
        patience: Evaluations without improvement to put up with.
        verbose: Whether to say that training stops.
        min_delta: The least improvement that counts.
        baseline: A value to be better than from the start.
        save_best_model: Whether to save the best as save_dir/best_model.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__()
        self.monitor, self.patience, self.verbose = monitor, patience, verbose
        self.min_delta, self.baseline = abs(min_delta), baseline
        self.save_best_model = save_best_model
        self._better, self._worst = _better("EarlyStopping", mode, monitor)
        self.save_dir: str | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait_epoch = self.stopped_epoch = 0
        self.best_value = self._worst if self.baseline is None else self.baseline
        self.save_dir = self.save_dir or self.params.get("save_dir")

    def on_eval_end(self, logs: Logs | None = None) -> None:
        if not logs or self.monitor not in logs:
            raise InvalidArgumentError(
                f"[EarlyStopping] monitor must be one of {sorted(logs or {})}, "
                f"got {self.monitor!r}"
            )
        value = _single(logs[self.monitor])
        if self._better(value, self.best_value, self.min_delta):
            self.best_value, self.wait_epoch = value, 0
            if self.save_best_model and self.save_dir is not None:
                self.model.save(str(Path(self.save_dir) / "best_model"))
        else:
            self.wait_epoch += 1
        if self.wait_epoch > self.patience:
            self.model.stop_training = True
            if self.verbose:
                print(
                    f"Stopping early: {self.monitor} has not improved on "
                    f"{self.best_value:.4f} in {self.wait_epoch} evaluations."
                )


class ReduceLROnPlateau(Callback):
    """Multiply the learning rate by factor when a measure does not improve.

    Args:
        monitor: The measure's name.
        factor: What the rate is multiplied by, below 1.
        patience: Evaluations without improvement to put up with.
        verbose: Whether to print each new rate.
        mode: Whether "min" or "max" is better; "auto" goes by the name.
        min_delta: The least improvement that counts.
        cooldown: Evaluations after a reduction that do not count.
        min_lr: The least rate.
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__()
        if factor >= 1.0:
            raise InvalidArgumentError(
                f"[ReduceLROnPlateau] factor must be below 1, got {factor}"
            )
        self.monitor, self.factor, self.patience = monitor, factor, patience
        self.verbose, self.min_delta = verbose, min_delta
        self.cooldown, self.min_lr = cooldown, min_lr
        self._better, self._worst = _better("ReduceLROnPlateau", mode, monitor)
        self._best, self._wait, self._rest = self._worst, 0, 0

    def in_cooldown(self) -> bool:
        """Whether evaluations do not count yet after a reduction."""
        return self._rest > 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._best, self._wait, self._rest = self._worst, 0, 0

    def on_eval_end(self, logs: Logs | None = None) -> None:
        if not logs or self.monitor not in logs:
            return
        value = _single(logs[self.monitor])
        if self._rest > 0:
            self._rest, self._wait = self._rest - 1, 0
        if self._better(value, self._best, self.min_delta):
            self._best, self._wait = value, 0
            return
        if self.in_cooldown():
            return
        self._wait += 1
        if self._wait < self.patience:
            return
        optimizer = self.model._optimizer
        if isinstance(optimizer._learning_rate, numbers.Real):
            old = optimizer.get_lr()
            new = max(old * self.factor, self.min_lr)
            if new < old:
                optimizer.set_lr(new)
                self._rest, self._wait = self.cooldown, 0
                if self.verbose:
                    print(f"The learning rate is now {new:.3e}.")
