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
from proa.errors import InvalidArgumentError, PreconditionNotMetError
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
        result = loaded(proa.to_tensor(X)).numpy()
        np.testing.assert_allclose(result, outputs, rtol=1e-4, atol=1e-5)
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
            model.prepare(sgd, nn.CrossEntropyLoss())
            with pytest.raises(PreconditionNotMetError, match="expected labels"):
                model.train_batch([X], [Y])
    finally:
        proa.disable_static()


def _batches(configs: Any, gather: int, clip: Any = None) -> tuple[list[float], Any]:
    """Losses of ten batches and the weight after them."""
    proa.seed(5)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
    model = proa.Model(net, INPUTS, LABELS)
    adam = proa.optimizer.Adam(0.01, parameters=net.parameters(), grad_clip=clip)
    model.prepare(adam, nn.CrossEntropyLoss(), amp_configs=configs)
    losses = []
    for k in range(10):
        update = (k + 1) % gather == 0
        losses.append(model.train_batch([X[k::10]], [Y[k::10]], update)[0])
    weight = net[1].weight
    held = weight.get_value() if hasattr(weight, "get_value") else weight
    return losses, held.numpy().copy()


def _in_both_modes(*given: Any) -> list[Any]:
    found = []
    for in_static in (False, True):
        with _mode(in_static):
            found.append(_batches(*given))
    return found


@pytest.mark.parametrize("clipped", [False, True])
def test_gradients_are_added_up_until_a_step(clipped: bool) -> None:
    clip = nn.ClipGradByGlobalNorm(0.05) if clipped else None
    (ours, weight), (theirs, other) = _in_both_modes(None, 3, clip)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)
    np.testing.assert_allclose(other, weight, rtol=1e-5, atol=1e-6)
    assert not np.allclose(_batches(None, 1, clip)[1], weight, atol=1e-4)


@pytest.mark.parametrize(
    "configs",
    [
        {"level": "O1", "dtype": "bfloat16"},
        {"level": "O1", "init_loss_scaling": 128.0},
    ],
)
@pytest.mark.parametrize("gather", [1, 3])
def test_mixed_precision_computes_as_in_dynamic_mode(
    configs: dict[str, Any], gather: int
) -> None:
    (ours, weight), (theirs, other) = _in_both_modes(configs, gather)
    np.testing.assert_allclose(theirs, ours, rtol=2e-2)
    np.testing.assert_allclose(other, weight, atol=5e-3)
    assert theirs[0] != _batches(None, gather)[0][0]


def test_operators_of_the_black_list_compute_in_float32() -> None:
    configs = {"level": "O1", "dtype": "bfloat16", "custom_black_list": {"linear"}}
    with _mode(in_static=True):
        losses, _ = _batches(configs, 1)
    assert losses[0] == _batches(None, 1)[0][0]


def test_o2_keeps_float32_weights() -> None:
    with _mode(in_static=True):
        losses, weight = _batches({"level": "O2", "dtype": "bfloat16"}, 1)
    exact, want = _batches(None, 1)
    assert weight.dtype == np.float32
    np.testing.assert_allclose(losses, exact, rtol=3e-2)
    np.testing.assert_allclose(weight, want, atol=1e-2)
