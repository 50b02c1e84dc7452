"""What `fit` adds by itself: progress lines, checkpoints, learning-rate schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError
from proa.hapi.callbacks.base import Callback, Logs
from proa.hapi.checkpoint import remove_older
from proa.hapi.progress import ProgressBar
from proa.optimizer.lr import LRScheduler as Schedule


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

    def _begin(self, steps: Any) -> None:
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
    """Save the model as save_dir/EPOCH every save_freq epochs, then save_dir/final.

    Args:
        save_freq: Epochs between checkpoints.
        save_dir: The directory; None saves nothing.
        keep_last: How many of the epochs' checkpoints to keep; older ones, also of runs
            before, are removed when a new one is complete. None keeps all.
    """

    def __init__(
        self,
        save_freq: int = 1,
        save_dir: str | None = None,
        keep_last: int | None = None,
    ) -> None:
        super().__init__()
        if keep_last is not None and keep_last < 1:
            raise InvalidArgumentError(
                f"[ModelCheckpoint] keep_last must be None or at least 1, got "
                f"{keep_last}"
            )
        self.save_freq, self.save_dir = max(save_freq, 1), save_dir
        self.keep_last = keep_last

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_dir is not None and epoch % self.save_freq == 0:
            self.model.save(str(Path(self.save_dir) / str(epoch)))
            if self.keep_last is not None:
                remove_older(self.save_dir, epoch, self.keep_last)

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.save_dir is not None:
            self.model.save(str(Path(self.save_dir) / "final"))


class LRScheduler(Callback):
    """Step the optimizer's schedule after every batch, or after every epoch."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise InvalidArgumentError(
                "[LRScheduler] expected either by_step or by_epoch, got both"
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
