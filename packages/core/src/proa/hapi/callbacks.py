"""Callbacks of `proa.Model`: what happens beside training."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.hapi.progress import ProgressBar
from proa.optimizer.lr import LRScheduler as Schedule

__all__ = [
    "Callback", "CallbackList", "EarlyStopping", "LRScheduler", "ModelCheckpoint",
    "ProgBarLogger", "ReduceLROnPlateau",
]  # fmt: skip

Logs = dict[str, Any]


class Callback:
    """Called at each turn of fit, evaluate and predict; does nothing by itself.

    `model` is the Model, `params` a dict of batch_size, epochs, steps, verbose,
    metrics.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Take the settings of the run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take the model."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last epoch."""

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        """Before an evaluation; logs has steps."""

    def on_eval_end(self, logs: Logs | None = None) -> None:
        """After an evaluation; logs has the measures."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Before a prediction."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """After a prediction."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After an epoch, before its evaluation."""

    def on_train_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before a training step."""

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After a training step; logs has loss, measures, batch_size."""

    def on_eval_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before an evaluation step."""

    def on_eval_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After an evaluation step."""

    def on_predict_batch_begin(self, step: int, logs: Logs | None = None) -> None:
        """Before a prediction step."""

    def on_predict_batch_end(self, step: int, logs: Logs | None = None) -> None:
        """After a prediction step."""


class CallbackList:
    """Hands calls on to all callbacks: ``callbacks.call("on_epoch_end", 0, logs)``."""

    def __init__(
        self, callbacks: Sequence[Callback], model: Any, params: dict[str, Any]
    ) -> None:
        self.callbacks = list(callbacks)
        for c in self.callbacks:
            c.set_model(model)
            c.set_params(params)

    def call(self, name: str, *args: Any) -> None:
        """Call the method of that name on every callback."""
        for c in self.callbacks:
            getattr(c, name)(*args)


class ProgBarLogger(Callback):
    """A progress line for each epoch with loss, measures, rate and time left.

    Args:
        log_freq: Steps between lines where verbose is 2.
        verbose: 0 is silent, 1 one line redrawn, 2 a line every log_freq steps.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq, self.verbose = max(log_freq, 1), verbose
        self._bar: ProgressBar | None = None
        self._step, self._last = 0, list[tuple[str, Any]]()

    def _measures(self, logs: Logs | None) -> list[tuple[str, Any]]:
        logs = logs or {}
        return [(k, logs[k]) for k in self.params.get("metrics", []) if k in logs]

    def _begin(self, steps: int | None) -> None:
        self._bar = ProgressBar(steps, every_line=self.verbose == 2)
        self._step, self._last = 0, []

    def _batch(self, step: int, logs: Logs | None) -> None:
        if self._bar is None:
            return
        self._step, self._last = step + 1, self._measures(logs)
        if self.verbose == 1 or self._step % self.log_freq == 0:
            self._bar.update(self._step, self._last)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.finish(self._step, self._last)
            if self.verbose == 2 and self._step % self.log_freq:
                self._bar.update(self._step, self._last)
            self._bar = None

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self.verbose:
            print(f"Epoch {epoch + 1}/{self.params.get('epochs', 1)}")
            self._begin(self.params.get("steps"))

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._batch(step, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._end()

    def on_eval_begin(self, logs: Logs | None = None) -> None:
        if self.verbose:
            print("Evaluating")
            self._begin((logs or {}).get("steps"))

    def on_eval_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._batch(step, logs)

    def on_eval_end(self, logs: Logs | None = None) -> None:
        self._last = self._measures(logs) or self._last
        self._end()

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        if self.verbose:
            print("Predicting")
            self._begin((logs or {}).get("steps"))

    def on_predict_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._batch(step, logs)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._end()


class ModelCheckpoint(Callback):
    """Save the model as save_dir/EPOCH every save_freq epochs, then save_dir/final."""

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        self.save_freq, self.save_dir = max(save_freq, 1), save_dir

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_dir is not None and epoch % self.save_freq == 0:
            self.model.save(str(Path(self.save_dir) / str(epoch)))

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.save_dir is not None:
            self.model.save(str(Path(self.save_dir) / "final"))


class LRScheduler(Callback):
    """Step the optimizer's schedule after every batch, or after every epoch."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise InvalidArgumentError(
                "[LRScheduler] one of by_step and by_epoch must be chosen, got both"
            )
        self.by_step, self.by_epoch = by_step, by_epoch

    def _step(self) -> None:
        optimizer = getattr(self.model, "_optimizer", None)
        rate = getattr(optimizer, "_learning_rate", None)
        if isinstance(rate, Schedule):
            rate.step()

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        if self.by_step:
            self._step()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.by_epoch:
            self._step()


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
    """Multiply the learning rate by factor when a measure does not improve."""

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
        if self._rest > 0:
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
