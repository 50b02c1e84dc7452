"""Searches that are killed, interrupted and shared."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import search_worker

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.search import SANAS, ChoiceSpace, Search


def notes(folder):
    return [path.read_text() for path in sorted(folder.iterdir())]


def started(storage, folder, controller, steps, sleep, *workers):
    folder.mkdir(exist_ok=True)
    environment = {
        **os.environ, "SEARCH_NOTES": str(folder), "SEARCH_SLEEP": str(sleep),
    }  # fmt: skip
    command = [sys.executable, search_worker.__file__, str(storage), controller, steps]
    return subprocess.Popen(
        [*command, *workers], env=environment, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for(folder, count):
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("controller", ["annealing", "reinforce"])
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_search_goes_on_and_loses_only_the_running_trial(
    tmp_path, controller, kind
):
    whole = Search(search_worker.space(), controller)
    os.environ["SEARCH_NOTES"] = str(tmp_path)
    whole.run(search_worker.reward, 12, progress=False)
    folder, storage = tmp_path / "notes", tmp_path / "search.journal"
    process = started(storage, folder, controller, "12", 0.15)
    wait_for(folder, 4)
    time.sleep(0.05)
    process.send_signal(kind)
    process.communicate()
    before = notes(folder)
    assert 4 <= len(before) < 12
    process = started(storage, folder, controller, "12", 0)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "/12: " in errors and "12/12" in errors  # progress
    after = Search(search_worker.space(), controller, storage)
    # The same trials as of the search that nothing stopped, at most one of them twice.
    expected = [record.tokens for record in whole.trials]
    assert [record.tokens for record in after.trials] == expected
    assert after.best.tokens == whole.best.tokens
    assert len(notes(folder)) <= 13


def interrupt_group(process):
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal


def interrupt_parent(process):
    process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("interrupt", [interrupt_group, interrupt_parent])
def test_ctrl_c_loses_only_the_running_trial_of_each_worker(tmp_path, interrupt):
    folder, storage = tmp_path / "notes", tmp_path / "search.journal"
    process = started(storage, folder, "evolution", "40", 0.3, "2")
    wait_for(folder, 5)
    interrupt(process)
    process.communicate(timeout=60)
    assert process.returncode != 0
    before = notes(folder)
    assert 5 <= len(before) < 30
    stored = Search(search_worker.space(), "evolution", storage).trials
    # A note is written at the end of an evaluation, before the storage has it.
    assert len(before) - 2 <= len(stored) <= len(before)
    process = started(storage, folder, "evolution", "40", 0, "2")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    after = Search(search_worker.space(), "evolution", storage).trials
    assert len(after) == 40
    found = {record.number: record.tokens for record in after}
    assert all(found[record.number] == record.tokens for record in stored)


def test_workers_share_a_search(tmp_path, monkeypatch):
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("SEARCH_NOTES", str(folder))
    monkeypatch.setenv("SEARCH_SLEEP", "0.1")
    shared = Search(search_worker.space(), "evolution", tmp_path / "search.journal")
    best = shared.run(search_worker.reward, 20, workers=2)
    assert len(shared.trials) == 20
    assert len({path.suffix for path in folder.iterdir()}) == 2
    assert best.reward == max(record.reward for record in shared.trials)
    assert len({tuple(record.tokens) for record in shared.trials}) == 20


def failing(trial):
    raise OSError(f"disk of trial {trial.number}")


def test_errors_of_evaluations_pass_and_are_tried_again(tmp_path):
    found = Search(search_worker.space(), storage=tmp_path / "search.journal")
    with pytest.raises(OSError, match="disk of trial 0"):
        found.run(failing, 3)
    again = Search(search_worker.space(), storage=tmp_path / "search.journal")
    again.run(lambda trial: float(sum(trial.tokens)), 3, progress=False)
    assert again.trials[0].tokens == [0, 0, 0, 0]
    with pytest.raises(PreconditionNotMetError, match="workers to finish"):
        again.run(failing, 8, workers=2, progress=False)
    with pytest.raises(InvalidArgumentError, match="that pickle takes"):
        again.run(lambda trial: 0.0, 8, workers=2)


def test_a_storage_of_another_space_is_refused(tmp_path):
    Search(search_worker.space(), storage=tmp_path / "search.journal")
    other = ChoiceSpace({**{f"c{i}": range(5) for i in range(3)}, "c3": [1]}, list)
    with pytest.raises(PreconditionNotMetError, match="'c3' has 5 values there and 1"):
        Search(other, storage=tmp_path / "search.journal")


@pytest.mark.feature("L481")
def test_sanas_goes_on_from_its_checkpoint(tmp_path):
    first = SANAS([search_worker.space()], save_checkpoint=tmp_path, search_steps=6)
    for _ in range(3):
        first.next_archs()
        first.reward(float(sum(first.trial.tokens)))
    first.next_archs()  # is never rewarded: another process may still be at it
    again = SANAS([search_worker.space()], load_checkpoint=tmp_path, search_steps=6)
    assert again.current_info()["best_reward"] == first.current_info()["best_reward"]
    assert again.steps == 3


def test_the_page_shows_every_trial(tmp_path):
    found = Search(search_worker.space(), "random", name="a < b")

    def evaluate(trial):
        trial.note("GFLOPs", 1.5)
        trial.note("file", "<net>")
        for value in (1.0, float(sum(trial.tokens))):
            trial.report(value)
        return value

    with pytest.raises(PreconditionNotMetError, match="trial that was finished"):
        found.report(tmp_path / "page.html")
    found.run(evaluate, 8, progress=False)
    text = Path(found.report(tmp_path / "page.html")).read_text()
    assert text.count("<tr") == 9 and "a &lt; b" in text and "&lt;net&gt;" in text
    assert text.count("<circle") == 8 and "c0: " in text and "GFLOPs" in text
    assert text.index("class=best") < text.index("finished")
