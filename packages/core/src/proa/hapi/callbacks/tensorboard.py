"""Curves of a training for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

from proa.hapi.callbacks.base import Callback, Logs
from proa.hapi.callbacks.event_file import EventWriter


def _number(value: Any) -> float | None:
    """The (first) number of a measure."""
    while isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return None if value is None else float(value)


class TensorBoard(Callback):
    """Write loss and measures as event files: ``tensorboard --logdir LOG_DIR``.

    ``train/…`` has a point for each batch, ``eval/…`` one for each evaluation (of
    ``fit`` at the batches trained so far), ``lr`` the learning rate by batches.

    Args:
        log_dir: The folder; it is made if it is not there.
    """

    def __init__(self, log_dir: str | os.PathLike[str] = "./log") -> None:
        super().__init__()
        self.log_dir = log_dir
        self._writer: EventWriter | None = None
        self._step = 0
        self._training = False

    def _open(self) -> EventWriter:
        if self._writer is None:
            self._writer = EventWriter(self.log_dir)
        return self._writer

    def _note(self, part: str, logs: Logs | None) -> None:
        writer = self._open()
        for name in self.params.get("metrics", []):
            value = _number((logs or {}).get(name))
            if value is not None:
                writer.scalar(f"{part}/{name}", value, self._step)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._step, self._training = 0, True

    def on_train_batch_end(self, step: int, logs: Logs | None = None) -> None:
        self._step += 1
        self._note("train", logs)
        optimizer = getattr(self.model, "_optimizer", None)
        if optimizer is not None:
            self._open().scalar("lr", optimizer.get_lr(), self._step)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._open().flush()

    def on_eval_end(self, logs: Logs | None = None) -> None:
        self._note("eval", logs)
        if not self._training:
            self._close()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._training = False
        self._close()


class VisualDL(TensorBoard):
    """`TensorBoard` by the name that PaddlePaddle's programs use for their viewer."""

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        super().__init__(log_dir)
