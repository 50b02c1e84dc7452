"""Requests that run apart, and runs that are stopped."""

import threading
import time

import numpy as np
import pytest

from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.queue import Limits
from proa_serving.schedule.scheduler import Scheduler


class Counting:
    """x (?, 2) -> y = x; waits until it is stopped if the first x is negative."""

    platform = "counting"
    inputs = outputs = (TensorSpec("x", "FP32", (-1, 2)),)

    def __init__(self, apart):
        self.runs_apart = apart
        self.rows = []

    def instance(self):
        return _Instance(self.rows)


class _Instance:
    def __init__(self, rows):
        self.rows, self.stopped = rows, threading.Event()

    def __call__(self, arrays):
        self.rows.append(len(arrays["x"]))
        if arrays["x"][0, 0] < 0:
            assert self.stopped.wait(20)
            self.stopped.clear()
            raise RuntimeError("stopped")
        return dict(arrays)

    def stop(self):
        self.stopped.set()


class Nobody:
    def ran(self, rows, seconds):
        pass


@pytest.fixture
def run():
    results = []

    def start(apart, **limits):
        model = Counting(apart)
        scheduler = Scheduler(
            "m", model, instances=1, limits=Limits(**limits), observer=Nobody()
        )
        results.append(scheduler)
        return model, scheduler

    yield start
    for scheduler in results:
        assert scheduler.close(20)


def submit(scheduler, first, answers):
    x = np.full((2, 2), first, np.float32)
    return scheduler.submit({"x": x}, lambda result, _: answers.append(result))


def wait_for(held):
    end = time.monotonic() + 20
    while not held() and time.monotonic() < end:
        time.sleep(0.002)
    assert held()


@pytest.mark.parametrize("apart", [False, True])
def test_a_model_that_runs_apart_sees_one_request_at_a_time(run, apart):
    model, scheduler = run(apart, max_batch=6, max_delay_us=10_000_000)
    answers = []
    for first in (1, 2, 3):
        submit(scheduler, first, answers)
    wait_for(lambda: len(answers) == 3)
    assert model.rows == ([2, 2, 2] if apart else [6])
    assert [int(a["x"][0, 0]) for a in answers] == [1, 2, 3]


def test_a_cancelled_run_is_stopped_and_the_next_runs(run):
    model, scheduler = run(True)
    answers = []
    endless = submit(scheduler, -1, answers)
    wait_for(lambda: len(model.rows) == 1)
    waiting = submit(scheduler, 1, answers)
    submit(scheduler, 2, answers)
    assert scheduler.cancel(waiting)  # it had not begun, and stops nobody
    assert not scheduler.cancel(endless)
    wait_for(lambda: len(answers) == 2)
    assert "stopped" in str(answers[0])
    assert int(answers[1]["x"][0, 0]) == 2


def test_closing_stops_what_does_not_end(run):
    model, scheduler = run(True)
    answers = []
    submit(scheduler, -1, answers)
    wait_for(lambda: len(model.rows) == 1)
    assert not scheduler.close(0.05)
    wait_for(lambda: len(answers) == 1)
