"""Checkpoints: complete or absent, kept in number, and training that continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.base import safetensors
from proa.callbacks import Callback, LRScheduler, ModelCheckpoint
from proa.errors import (
    FileError,
    InvalidArgumentError,
    MissingFileError,
    PreconditionNotMetError,
)
from proa.hapi import latest_checkpoint
from proa.io import TensorDataset

RNG = np.random.default_rng(5)
DATA = TensorDataset(
    [
        proa.to_tensor(RNG.standard_normal((48, 6)).astype("float32")),
        proa.to_tensor(RNG.standard_normal((48, 2)).astype("float32")),
    ]
)


def prepared(amp: Any = None) -> proa.Model:
    model = proa.Model(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 2)))
    rate = proa.optimizer.lr.ExponentialDecay(0.05, 0.9)
    adam = proa.optimizer.Adam(rate, parameters=model.parameters())
    model.prepare(adam, nn.MSELoss(), amp_configs=amp)
    return model


def weights(model: proa.Model) -> list[Any]:
    return [p.numpy() for p in model.parameters()]


@pytest.mark.parametrize("amp", [None, {"level": "O1", "init_loss_scaling": 64.0}])
def test_resumed_training_has_the_same_bits(amp: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 16, "verbose": 0}
    proa.seed(7)
    whole = prepared(amp)
    whole.fit(DATA, epochs=5, callbacks=[LRScheduler(False, True)], **options)
    proa.seed(7)
    first = prepared(amp)
    options["save_dir"] = str(tmp_path)
    by_epoch = [ModelCheckpoint(1, str(tmp_path)), LRScheduler(False, True)]
    first.fit(DATA, epochs=3, callbacks=by_epoch, **options)
    (tmp_path / "final.pdparams").unlink()  # what was killed has none
    proa.seed(1234)
    second = prepared(amp)  # its parameters have other names
    second.fit(
        DATA, epochs=5, resume=True, callbacks=[LRScheduler(False, True)], **options
    )
    for a, b in zip(weights(whole), weights(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert second._optimizer.get_lr() == whole._optimizer.get_lr()


class Epochs(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(epoch)


def test_where_training_resumes(tmp_path: Path) -> None:
    def fit(epochs: int, resume: bool | str, **more: Any) -> list[int]:
        note = Epochs()
        prepared().fit(
            DATA, batch_size=16, epochs=epochs, verbose=0, save_dir=str(tmp_path),
            resume=resume, callbacks=[note], **more,
        )  # fmt: skip
        return note.seen

    assert fit(2, True) == [0, 1]  # nothing is there yet
    assert latest_checkpoint(tmp_path) == str(tmp_path / "final")
    assert fit(4, True) == [2, 3]
    assert fit(4, True) == []  # all epochs are done
    assert fit(3, str(tmp_path / "0")) == [1, 2]
    assert fit(1, False) == [0]
    with pytest.raises(MissingFileError):
        fit(1, str(tmp_path / "nothing"))
    prepared().save(str(tmp_path / "other"))
    with pytest.raises(InvalidArgumentError, match="of a whole epoch"):
        fit(1, str(tmp_path / "other"))
    with pytest.raises(InvalidArgumentError, match="expected save_dir"):
        prepared().fit(DATA, resume=True, verbose=0)


def test_the_end_of_num_iters_is_not_that_of_an_epoch(tmp_path: Path) -> None:
    prepared().fit(
        DATA, batch_size=16, epochs=3, num_iters=4, verbose=0, save_dir=str(tmp_path)
    )
    assert latest_checkpoint(tmp_path) == str(tmp_path / "0")


def test_only_the_last_checkpoints_are_retained(tmp_path: Path) -> None:
    keep = ModelCheckpoint(1, str(tmp_path), keep_last=2)
    prepared().fit(DATA, batch_size=48, epochs=4, verbose=0, callbacks=[keep])
    names = {p.name for p in tmp_path.iterdir()}
    stems = ("2", "3", "final")
    assert names == {f"{s}.{end}" for s in stems for end in ("pdparams", "pdopt")}
    prepared().fit(
        DATA, batch_size=48, epochs=6, verbose=0, callbacks=[keep],
        save_dir=str(tmp_path), resume=True,
    )  # fmt: skip
    assert {p.stem for p in tmp_path.iterdir()} == {"4", "5", "final"}
    with pytest.raises(InvalidArgumentError, match="keep_last must be"):
        ModelCheckpoint(keep_last=0)


def test_a_missing_optimizer_state_warns(tmp_path: Path) -> None:
    model = prepared()
    model.fit(DATA, batch_size=48, verbose=0)
    model.save(str(tmp_path / "x"))
    (tmp_path / "x.pdopt").unlink()
    with pytest.warns(UserWarning, match=r"x\.pdopt, got no such file; .* scratch"):
        model.load(str(tmp_path / "x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.load(str(tmp_path / "x"), reset_optimizer=True)
        proa.Model(model.network).load(str(tmp_path / "x"))
    assert latest_checkpoint(tmp_path) is None


def test_files_of_two_checkpoints_are_refused(tmp_path: Path) -> None:
    model = prepared()
    for name in ("x", "y"):
        model.fit(DATA, batch_size=48, verbose=0)
        model.save(str(tmp_path / name))
    (tmp_path / "y.pdopt").rename(tmp_path / "x.pdopt")
    with pytest.raises(PreconditionNotMetError, match="of one checkpoint, got those"):
        model.load(str(tmp_path / "x"))
    model.load(str(tmp_path / "x"), reset_optimizer=True)
    # Files of proa.save, as PaddlePaddle's programs write them, state nothing.
    proa.save(model.network.state_dict(), tmp_path / "z.pdparams")
    proa.save(model._optimizer.state_dict(), tmp_path / "z.pdopt")
    model.load(str(tmp_path / "z"))


def save_and_die_between_the_renames(model: proa.Model, path: str) -> None:
    """Save in a child process that is killed after its first rename."""
    child = os.fork()
    if child == 0:
        rename = os.replace

        def rename_once(source: Any, target: Any) -> None:
            rename(source, target)
            os.kill(os.getpid(), signal.SIGKILL)

        os.replace = rename_once  # type: ignore[assignment]
        model.save(path)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("name", ["final", "0"])
def test_a_save_killed_between_two_files_is_finished(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    model = prepared()
    model.fit(DATA, epochs=1, batch_size=16, verbose=0, save_dir=str(tmp_path))
    old = [w.copy() for w in weights(model)]
    model.fit(DATA, epochs=1, batch_size=16, verbose=0)
    save_and_die_between_the_renames(model, path)
    assert len(list(tmp_path.glob(".*.part"))) == 1
    again = prepared()
    again.load(path)
    for a, b, before in zip(weights(model), weights(again), old, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(b, before)
    assert not list(tmp_path.glob(".*.part"))


def test_damaged_metadata_is_rejected(tmp_path: Path) -> None:
    entries = ("epoch", "x"), ("epoch", -2), ("unknown", 1), ("random", [1])
    more = ("identity", 3), ("names", [])
    objects = [json.dumps({key: value}) for key, value in (*entries, *more)]
    for about in ("{", "[1]", "7", *objects):
        safetensors.write(tmp_path / "x.pdparams", {}, {"proa.checkpoint": about})
        with pytest.raises(InvalidArgumentError, match="damaged metadata"):
            prepared().load(str(tmp_path / "x"))
        assert latest_checkpoint(tmp_path) is None


def test_other_readers_see_plain_state_dicts(tmp_path: Path) -> None:
    model = prepared()
    model.fit(DATA, batch_size=48, verbose=0)
    model.save(str(tmp_path / "x"))
    state = proa.load(tmp_path / "x.pdparams")
    assert list(state) == list(model.network.state_dict())
    assert "LR_Scheduler" in proa.load(tmp_path / "x.pdopt")
    about = json.loads(
        safetensors.read_metadata(tmp_path / "x.pdparams")["proa.checkpoint"]
    )
    assert about["optimizer"]


def test_a_disk_with_room_for_one_file_gets_none(small_disk: Path) -> None:
    model = proa.Model(nn.Linear(300, 300))  # 360 kB; the optimizer has twice as much
    adam = proa.optimizer.Adam(parameters=model.parameters())
    model.prepare(adam, nn.MSELoss())
    model.train_batch(np.ones((2, 300), "f4"), np.ones((2, 300), "f4"))
    with pytest.raises(FileError, match="No space left"):
        model.save(str(small_disk / "pair"))
    assert list(small_disk.iterdir()) == []


TRAIN = """
import sys
import numpy as np
import proa
from proa import nn
from proa.io import TensorDataset
model = proa.Model(nn.Linear(400, 400))
rate = proa.optimizer.lr.ExponentialDecay(0.01, 0.99)
model.prepare(proa.optimizer.Adam(rate, parameters=model.parameters()), nn.MSELoss())
x = proa.ones([4, 400])
print("ready", flush=True)
model.fit(
    TensorDataset([x, x]), batch_size=4, epochs=10**6, verbose=0, resume=True,
    save_dir=sys.argv[1],
    callbacks=[proa.callbacks.ModelCheckpoint(1, sys.argv[1], keep_last=3)],
)
"""


def kill_while_training(folder: Path, delay: float) -> int:
    """Ends a training that resumes; returns the epoch of what it leaves."""
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAIN, folder], stdout=subprocess.PIPE
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == b"ready\n"
    time.sleep(delay)
    assert trainer.poll() is None
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    for path in folder.glob("*.pdparams"):
        assert path.with_suffix(".pdopt").exists(), path
    path = latest_checkpoint(folder)
    if path is None:
        return -1
    model = proa.Model(nn.Linear(400, 400))
    rate = proa.optimizer.lr.ExponentialDecay(0.01, 0.99)
    adam = proa.optimizer.Adam(rate, parameters=model.parameters())
    model.prepare(adam, nn.MSELoss())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.load(path)
    epoch = int(Path(path).name)
    assert rate.last_epoch == epoch + 1
    assert len({p.stem for p in folder.glob("*.pdparams")}) <= 4
    return epoch


def check_kills(folder: Path, times: int) -> None:
    rng = np.random.default_rng(times)
    epoch = -1
    for _ in range(times):
        after = kill_while_training(folder, rng.uniform(0.05, 0.4))
        assert after >= epoch  # no run loses what those before had
        epoch = after
    assert epoch >= 0
    # What the last one left unfinished goes with the next save.
    proa.save({}, folder / "last")
    assert not [p for p in folder.iterdir() if p.name.endswith(".part")]


def test_a_killed_training_leaves_complete_checkpoints(tmp_path: Path) -> None:
    check_kills(tmp_path, 2)


@pytest.mark.full
def test_fifty_killed_trainings_leave_complete_checkpoints(tmp_path: Path) -> None:
    check_kills(tmp_path, 50)
