"""The base of callbacks, and their list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Logs = dict[str, object]


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

    def call(self, name: str, *args: object) -> None:
        """Call the method of that name on every callback."""
        for c in self.callbacks:
            getattr(c, name)(*args)
