"""Model: training, evaluation, prediction, checkpoints, callbacks, progress."""

from __future__ import annotations

import io as text_io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.hapi.callbacks import (
    Callback,
    EarlyStopping,
    LRScheduler,
    ReduceLROnPlateau,
)
from proa.hapi.progress import ProgressBar, format_time

RNG = np.random.RandomState(0)
X = RNG.randn(200, 8).astype(np.float32)
Y = (X @ RNG.randn(8, 3)).argmax(1)[:, None]
DATA = proa.io.TensorDataset([X, Y])


def network() -> nn.Layer:
    proa.seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))


def prepared(lr: Any = 0.02, **settings: Any) -> proa.Model:
    model = proa.Model(network(), **settings)
    adam = proa.optimizer.Adam(lr, parameters=model.parameters())
    model.prepare(adam, nn.CrossEntropyLoss(), proa.metric.Accuracy())
    return model


@pytest.mark.feature("L274")
@pytest.mark.parametrize("workers", [0, 2])
def test_fit_learns_and_evaluate_reports_metrics(workers: int, tmp_path: Path) -> None:
    model = prepared()
    model.fit(DATA, batch_size=20, epochs=8, verbose=0, num_workers=workers)
    logs = model.evaluate(DATA, batch_size=64, verbose=0, num_workers=workers)
    assert logs["acc"] > 0.95
    out = model.predict(DATA, batch_size=64, verbose=0, stack_outputs=True)[0]
    assert out.shape == (200, 3)
    assert (out.argmax(1) == Y[:, 0]).mean() == pytest.approx(logs["acc"])
    log_p = out - np.log(np.exp(out).sum(1, keepdims=True))
    assert logs["loss"][0] == pytest.approx(
        -log_p[np.arange(200), Y[:, 0]].mean(), rel=1e-4
    )
    assert len(model.predict(DATA, batch_size=64, verbose=0)[0]) == 4
    model.save(str(tmp_path / "model"))
    again = prepared()
    again.load(str(tmp_path / "model"))
    loaded = again.predict(DATA, batch_size=64, verbose=0, stack_outputs=True)[0]
    np.testing.assert_array_equal(loaded, out)


def test_single_batches() -> None:
    model = prepared()
    first, (acc,) = model.train_batch([X], [Y])
    assert 0 <= acc <= 1
    for _ in range(20):
        model.train_batch(X, Y)
    last, _ = model.eval_batch([X], [Y])
    assert last[0] < first[0]
    assert model.predict_batch([X[:2]])[0].shape == (2, 3)
    with pytest.raises(PreconditionNotMetError, match="prepare"):
        proa.Model(network()).train_batch(X, Y)


@pytest.mark.feature("L048")
def test_gradients_gathered_over_batches_make_the_same_step() -> None:
    one, two = (proa.Model(network()) for _ in range(2))
    for model in (one, two):
        sgd = proa.optimizer.SGD(0.1, model.parameters())
        model.prepare(sgd, nn.CrossEntropyLoss(reduction="sum"))
    one.fit(DATA, batch_size=100, shuffle=False, verbose=0)
    two.fit(DATA, batch_size=25, shuffle=False, verbose=0, accumulate_grad_batches=4)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-4, atol=1e-4)


class Recorder(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.logs: dict[str, Any] = {}

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    def on_train_batch_end(self, step: int, logs: dict[str, Any] | None = None) -> None:
        self.logs = logs or {}


def test_callbacks_are_called_in_order() -> None:
    recorder = Recorder()
    prepared().fit(
        DATA, DATA, batch_size=100, epochs=1, verbose=0, callbacks=[recorder]
    )
    assert recorder.calls == [
        "on_train_begin", "on_epoch_begin",
        "on_train_batch_begin", "on_train_batch_end",
        "on_train_batch_begin", "on_train_batch_end", "on_epoch_end",
        "on_eval_begin", "on_eval_batch_begin", "on_eval_batch_end",
        "on_eval_batch_begin", "on_eval_batch_end", "on_eval_end", "on_train_end",
    ]  # fmt: skip
    assert set(recorder.logs) == {"loss", "acc", "batch_size"}
    assert recorder.params["metrics"] == ["loss", "acc"]
    assert recorder.params["steps"] == 2


def test_num_iters_and_stop_training_end_early() -> None:
    recorder = Recorder()
    prepared().fit(
        DATA, batch_size=20, epochs=5, verbose=0, num_iters=13, callbacks=[recorder]
    )
    assert recorder.calls.count("on_train_batch_end") == 13


def test_early_stopping(tmp_path: Path, capsys: Any) -> None:
    model = prepared(lr=0.0)
    recorder = Recorder()
    stop = EarlyStopping("acc", patience=2)
    model.fit(
        DATA, DATA, batch_size=100, epochs=20, verbose=0, callbacks=[stop, recorder],
        save_dir=str(tmp_path),
    )  # fmt: skip
    assert recorder.calls.count("on_epoch_end") == 4
    assert (tmp_path / "best_model.pdparams").exists()
    assert "Stopping early: acc" in capsys.readouterr().out
    with pytest.raises(InvalidArgumentError, match="monitor must be one of"):
        model.fit(DATA, DATA, 100, verbose=0, callbacks=[EarlyStopping("speed")])


def test_the_schedule_steps_by_batch_or_epoch() -> None:
    for callback, expected in ((None, 4), (LRScheduler(False, True), 2)):
        schedule = proa.optimizer.lr.ExponentialDecay(0.1, 0.5)
        prepared(schedule).fit(
            DATA, batch_size=100, epochs=2, verbose=0,
            callbacks=[callback] if callback else None,
        )  # fmt: skip
        assert schedule.last_epoch == expected
    model = prepared(0.1)
    plateau = ReduceLROnPlateau("acc", 0.5, patience=1, verbose=0, min_delta=10.0)
    model.fit(DATA, DATA, 100, epochs=3, verbose=0, callbacks=[plateau])
    assert model._optimizer.get_lr() < 0.1


def test_checkpoints_restore_network_and_optimizer(tmp_path: Path) -> None:
    model = prepared()
    model.fit(
        DATA, batch_size=50, epochs=3, verbose=0, save_dir=str(tmp_path), save_freq=2
    )
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [
        f"{stem}.{end}" for stem in ("0", "2", "final") for end in ("pdopt", "pdparams")
    ]  # fmt: skip
    other = prepared()
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        p.name = q.name
    other.load(str(tmp_path / "final"))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    state = other._optimizer.state_dict().items()
    powers = [v.item() for k, v in state if "beta1_pow" in k]
    assert powers == pytest.approx([0.9**13] * 4)
    wrong = proa.Model(nn.Sequential(nn.Linear(8, 5)))
    with pytest.raises(InvalidArgumentError, match=r"must be \[8, 5\], got \[8, 32\]"):
        wrong.load(str(tmp_path / "final"))
    with pytest.warns(UserWarning, match="left as it was"):
        wrong.load(str(tmp_path / "final"), skip_mismatch=True)
    with pytest.raises(NotFoundError):
        wrong.load(str(tmp_path / "nothing"))


def test_more_inputs_and_a_loss_of_two() -> None:
    class Two(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 3)

        def forward(self, a: Any, b: Any) -> Any:
            return self.fc(a + b), self.fc(a - b)

    data = proa.io.TensorDataset([X, X, Y])
    model = proa.Model(Two())
    model.prepare(
        proa.optimizer.SGD(0.1, model.parameters()),
        lambda p, q, y: [nn.functional.cross_entropy(p, y), (q * q).mean()],
    )
    model.fit(data, batch_size=50, verbose=0)
    logs = model.evaluate(data, batch_size=50, verbose=0)
    assert len(logs["loss"]) == 2


def test_verbose_forms(capsys: Any) -> None:
    model = prepared()
    model.fit(DATA, DATA, batch_size=20, epochs=2, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Epoch 1/2"
    assert len(lines) == 8
    assert "10/10" in lines[1]
    assert "loss: " in lines[1]
    assert "acc: " in lines[1]
    model.fit(DATA, batch_size=20, verbose=2, log_freq=5)
    assert len(capsys.readouterr().out.splitlines()) == 3
    model.fit(DATA, batch_size=20, verbose=0)
    model.predict(DATA, verbose=0)
    assert not capsys.readouterr().out


def test_the_progress_line_on_a_terminal() -> None:
    class Terminal(text_io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    bar = ProgressBar(4, out)
    for step in range(1, 5):
        bar.update(step, [("loss", [1.5]), ("n", 3)])
    bar.finish(4, [("loss", [0.25])])
    text = out.getvalue()
    assert text.endswith("loss: 0.2500\n")
    assert text.count("\n") == 1
    assert "\r" in text
    line = bar.line(2, [("loss", 1e-5)])
    assert "2/4" in line
    assert "eta" in line
    assert "1.000e-05" in line
    assert ProgressBar(None, out).line(3, []).startswith("step 3")
    assert [format_time(s) for s in (9, 65, 7384)] == ["9s", "1:05", "2:03:04"]


def test_summary_counts(capsys: Any) -> None:
    net = network()
    net[0].weight.stop_gradient = True
    counts = proa.summary(net, (4, 8))
    assert counts == {"total_params": 387, "trainable_params": 131}
    text = capsys.readouterr().out
    assert "Linear-1" in text
    assert "[4, 32]" in text
    assert "Total params: 387" in text
    assert net.training
    proa.Model(net).summary((4, 8))
    with pytest.raises(InvalidArgumentError, match="input_size"):
        proa.summary(net)


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"loss": 3}, "callable"), ({"metrics": [3]}, "must be Metrics")],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        proa.Model(network()).prepare(**settings)
    with pytest.raises(InvalidArgumentError, match="must be a Layer"):
        proa.Model(3)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_summary_of_a_network_that_takes_its_inputs_in_one(kind: Any) -> None:
    class Net(proa.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.parts = proa.nn.LayerList([proa.nn.Linear(3, 2), proa.nn.Linear(3, 2)])

        def forward(self, given: Any) -> Any:
            pair = list(given.values()) if isinstance(given, dict) else given
            return self.parts[0](pair[0]) + self.parts[1](pair[1])

    pair = [proa.ones([4, 3]), proa.zeros([4, 3])]
    given = dict(zip("ab", pair, strict=True)) if kind is dict else kind(pair)
    found = proa.summary(Net(), input=given)
    assert found == {"total_params": 16, "trainable_params": 16}
