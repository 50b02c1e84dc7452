"""Programs of the high-level interface: `Model`, its metrics, callbacks and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa as paddle
from proa import nn

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((3, 6)).astype(np.float32) * 2


class Clouds(paddle.io.Dataset):
    """Points about three centres, and the centres' numbers."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 3, count)
        noise = rng.standard_normal((count, 6))
        self.points = (CENTRES[self.labels] + 0.5 * noise).astype(np.float32)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.points[index], self.labels[index : index + 1]

    def __len__(self) -> int:
        return len(self.labels)


class Recall(paddle.metric.Metric):
    """Which part of a class's points is found, computed in two steps as by Paddle."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.reset()

    def compute(self, prediction: Any, label: Any) -> tuple[Any, Any]:
        return paddle.argmax(prediction, axis=1), label.squeeze(1)

    def update(self, found: Any, label: Any) -> float:
        mine = np.asarray(label) == self.number
        self.hits += int((np.asarray(found)[mine] == self.number).sum())
        self.total += int(mine.sum())
        return self.accumulate()

    def accumulate(self) -> float:
        return self.hits / self.total if self.total else 0.0

    def reset(self) -> None:
        self.hits = self.total = 0

    def name(self) -> str:
        return f"recall_{self.number}"


class Journal(paddle.callbacks.Callback):
    """Notes its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.losses: list[float] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.events.append(f"train {self.params['epochs']}x{self.params['steps']}")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.events.append(f"epoch {epoch}")

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self.losses.append(float(np.ravel((logs or {})["loss"])[0]))

    def on_eval_end(self, logs: Any = None) -> None:
        self.events.append(f"eval {sorted(set(logs or {}) & {'recall_1', 'acc'})}")

    def on_train_end(self, logs: Any = None) -> None:
        self.events.append("end")


def classifier(**kwargs: Any) -> Any:
    paddle.seed(3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    model = paddle.Model(net)
    optimizer = paddle.optimizer.Adam(0.02, parameters=model.parameters())
    metrics = [paddle.metric.Accuracy(), Recall(1)]
    model.prepare(optimizer, nn.CrossEntropyLoss(), metrics, **kwargs)
    return model


@pytest.mark.parametrize("level", [None, "O1", {"level": "O1", "init_loss_scaling": 8}])
def test_a_model_learns_with_metrics_and_callbacks_of_the_program(level: Any) -> None:
    model = classifier(amp_configs=level)
    journal = Journal()
    model.fit(
        Clouds(96, 1), Clouds(48, 2), batch_size=16, epochs=3, verbose=0,
        callbacks=[journal],
    )  # fmt: skip
    assert journal.events[0] == "train 3x6"
    assert journal.events[1:3] == ["epoch 0", "eval ['acc', 'recall_1']"]
    assert journal.events[-1] == "end"
    assert len(journal.losses) == 18
    assert np.mean(journal.losses[-6:]) < 0.5 * np.mean(journal.losses[:6])
    found = model.evaluate(Clouds(48, 2), batch_size=16, verbose=0)
    assert found["acc"] > 0.9
    predicted = model.predict(Clouds(48, 2), batch_size=16, stack_outputs=True)[0]
    labels = Clouds(48, 2).labels
    guessed = predicted.argmax(1)
    assert found["acc"] == pytest.approx((guessed == labels).mean())
    assert found["recall_1"] == pytest.approx((guessed == 1)[labels == 1].mean())


def test_worker_processes_reproduce_the_run() -> None:
    losses = []
    for workers in (0, 2):
        model, journal = classifier(), Journal()
        model.fit(
            Clouds(64, 1), batch_size=16, epochs=2, shuffle=False, verbose=0,
            num_workers=workers, callbacks=[journal],
        )  # fmt: skip
        losses.append(journal.losses)
    assert losses[0] == losses[1]


def test_early_stopping_restores_the_best_weights(tmp_path: Path) -> None:
    model, journal = classifier(), Journal()
    stop = paddle.callbacks.EarlyStopping(
        "acc", mode="max", patience=1, verbose=0, save_best_model=True
    )
    model.fit(
        Clouds(96, 1), Clouds(48, 2), batch_size=16, epochs=40, verbose=0,
        save_dir=str(tmp_path), callbacks=[stop, journal],
    )  # fmt: skip
    assert journal.events.count("eval ['acc', 'recall_1']") < 40
    best = classifier()
    best.load(str(tmp_path / "best_model"), skip_mismatch=False)
    assert best.evaluate(Clouds(48, 2), verbose=0)["acc"] == pytest.approx(
        stop.best_value
    )


def test_batches_are_trained_and_judged_one_by_one() -> None:
    model = classifier()
    points, labels = Clouds(32, 5).points, Clouds(32, 5).labels[:, None]
    losses = [model.train_batch([points], [labels])[0][0] for _ in range(20)]
    assert float(np.ravel(losses[-1])[0]) < 0.5 * float(np.ravel(losses[0])[0])
    rows = model.predict_batch([points])[0]
    shifted = rows - rows.max(1, keepdims=True)
    chosen = (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))[
        np.arange(32), labels[:, 0]
    ]
    (loss,), _ = model.eval_batch([points], [labels])
    np.testing.assert_allclose(np.ravel(loss)[0], -chosen.mean(), rtol=1e-4)


def test_tables_count_parameters_and_operations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    net = paddle.vision.models.LeNet()
    table = paddle.summary(net, (1, 1, 28, 28))
    assert table == {"total_params": 61610, "trainable_params": 61610}
    assert "Conv2D" in capsys.readouterr().out
    # Multiplications of the two convolutions and three products, as Paddle counts.
    products = 28 * 28 * 6 * 9 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10
    total = paddle.flops(net, [1, 1, 28, 28])
    assert products <= total <= products * 1.05
