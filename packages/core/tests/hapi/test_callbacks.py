"""Callbacks: their arguments, progress lines, checkpoints, plateaus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.callbacks import Callback, ModelCheckpoint, ProgBarLogger, ReduceLROnPlateau

X = np.random.RandomState(0).randn(20, 4).astype(np.float32)
DATA = proa.io.TensorDataset([X, X.argmax(1)[:, None]])


def prepared() -> proa.Model:
    model = proa.Model(nn.Linear(4, 4))
    sgd = proa.optimizer.SGD(0.1, model.parameters())
    model.prepare(sgd, nn.CrossEntropyLoss())
    return model


class Predicting(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def on_predict_begin(self, logs: Any = None) -> None:
        self.seen.append(("begin", logs["steps"]))

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        self.seen.append(step)

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        self.seen.append((step, logs["batch_size"]))

    def on_predict_end(self, logs: Any = None) -> None:
        self.seen.append("end")


def test_callbacks_receive_predictions() -> None:
    model, callback = prepared(), Predicting()
    model.predict(DATA, batch_size=12, verbose=0, callbacks=callback)
    assert callback.seen == [("begin", 2), 0, (0, 12), 1, (1, 8), "end"]
    assert callback.model is model
    assert callback.params["batch_size"] == 12


def test_models_and_settings_can_be_set() -> None:
    callback = Callback()
    callback.set_model("model")
    callback.set_params({"epochs": 3})
    assert (callback.model, callback.params) == ("model", {"epochs": 3})


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_progress_lines(verbose: int, capsys: Any) -> None:
    logger = ProgBarLogger(log_freq=1, verbose=verbose)
    prepared().predict(DATA, batch_size=5, callbacks=logger)
    text = capsys.readouterr().out
    assert ("Predicting" in text) == (verbose > 0)
    assert text.count("4/4") == (1 if verbose else 0)


def test_checkpoints_of_every_other_epoch(tmp_path: Path) -> None:
    keep = ModelCheckpoint(save_freq=2, save_dir=str(tmp_path))
    prepared().fit(DATA, batch_size=10, epochs=3, verbose=0, callbacks=keep)
    names = {p.name for p in tmp_path.glob("*.pdparams")}
    assert names == {"0.pdparams", "2.pdparams", "final.pdparams"}


def test_plateaus_cool_down(capsys: Any) -> None:
    model = prepared()
    plateau = ReduceLROnPlateau(
        "loss", factor=0.5, patience=1, min_delta=0.0, cooldown=2, min_lr=0.03
    )
    plateau.set_model(model)
    plateau.on_train_begin()
    seen = []
    for loss in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5):
        plateau.on_eval_end({"loss": [loss]})
        seen.append((model._optimizer.get_lr(), plateau.in_cooldown()))
    assert seen == [
        (0.1, False), (0.05, True), (0.05, True), (0.03, True), (0.03, True),
        (0.03, False), (0.03, False),
    ]  # fmt: skip
    assert "5.000e-02" in capsys.readouterr().out
