"""`Model` in static mode, against the same program in dynamic mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, static
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.jit import InputSpec

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 1, 8, 8)).astype(np.float32)
Y = RNG.integers(0, 3, (40, 1))
INPUTS = [InputSpec([None, 1, 8, 8], "float32", "image")]
LABELS = [InputSpec([None, 1], "int64", "label")]


@contextlib.contextmanager
def _mode(in_static: bool) -> Iterator[None]:
    """One of the modes, with programs and a scope of its own."""
    if not in_static:
        yield
        return
    proa.enable_static()
    try:
        with (
            static.program_guard(static.Program(), static.Program()),
            static.scope_guard(static.Scope()),
        ):
            yield
    finally:
        proa.disable_static()


class Images(proa.io.Dataset):
    def __getitem__(self, i: int) -> Any:
        return X[i], Y[i]

    def __len__(self) -> int:
        return len(X)


def _net() -> Any:
    return nn.Sequential(
        nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(144, 3),
    )  # fmt: skip


def _model() -> Any:
    proa.seed(5)
    net = _net()
    model = proa.Model(net, INPUTS, LABELS)
    rate = proa.optimizer.lr.StepDecay(0.01, 2)
    adam = proa.optimizer.Adam(rate, parameters=net.parameters())
    model.prepare(adam, nn.CrossEntropyLoss(), proa.metric.Accuracy())
    return model


class Noted(proa.callbacks.Callback):
    """The logs of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[Any] = []

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self.logs.append((logs["loss"], logs["acc"]))


def _trained(folder: Path) -> list[Any]:
    """All that a program can see of its training."""
    model, noted = _model(), Noted()
    model.fit(
        Images(), batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=[noted]
    )
    evaluated = model.evaluate(Images(), batch_size=16, verbose=0)
    (outputs,) = model.predict(Images(), batch_size=16, stack_outputs=True, verbose=0)
    model.save(str(folder / "training"))
    model.save(str(folder / "inference"), training=False)
    return [noted.logs, evaluated["loss"], evaluated["acc"], outputs]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What training gave and the folder of its files, in dynamic and static mode."""
    found = []
    for in_static in (False, True):
        folder = tmp_path_factory.mktemp("model")
        with _mode(in_static):
            found.append((_trained(folder), folder))
    return found


def test_it_trains_to_the_same_numbers(trained: Any) -> None:
    (ours, _), (theirs, _) = trained
    for one, two in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(one[0], two[0], rtol=2e-5)
        assert one[1] == two[1]
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4)
    assert ours[2] == theirs[2]
    np.testing.assert_allclose(ours[3], theirs[3], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("in_static", [False, True])
def test_training_goes_on_from_files_of_either_mode(
    trained: Any, in_static: bool
) -> None:
    losses = []
    for results, folder in trained:
        with _mode(in_static):
            model = _model()
            model.load(str(folder / "training"))
            (outputs,) = model.predict_batch([X])
            np.testing.assert_allclose(outputs, results[3], rtol=1e-4, atol=1e-5)
            proa.seed(0)
            losses.append([model.train_batch([X], [Y])[0][0] for _ in range(3)])
        loaded = proa.jit.load(str(folder / "inference"))
        made = loaded(proa.to_tensor(X)).numpy()
        np.testing.assert_allclose(made, outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_what_static_mode_needs_is_named() -> None:
    proa.enable_static()
    try:
        with static.program_guard(static.Program(), static.Program()):
            net = _net()
            with pytest.raises(InvalidArgumentError, match="expected inputs"):
                proa.Model(net)
            model = proa.Model(net, INPUTS)
            with pytest.raises(PreconditionNotMetError, match="expected a call of"):
                model.predict_batch([X])
            sgd = proa.optimizer.SGD(0.1, parameters=net.parameters())
            with pytest.raises(UnimplementedError, match="amp_configs=None"):
                model.prepare(sgd, nn.CrossEntropyLoss(), amp_configs="O1")
            model.prepare(sgd, nn.CrossEntropyLoss())
            with pytest.raises(PreconditionNotMetError, match="expected labels"):
                model.train_batch([X], [Y])
            with pytest.raises(UnimplementedError, match="update=True"):
                model.train_batch([X], [Y], update=False)
    finally:
        proa.disable_static()
