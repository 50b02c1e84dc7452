"""Batches become as large as the model runs them best, and no larger."""

import threading
import time

import numpy as np
import pytest

from proa_serving.metrics import ModelMetrics
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.queue import Job, JobQueue, Limits
from proa_serving.schedule.scheduler import Scheduler
from proa_serving.schedule.sizes import BatchSizes

COSTS = {
    "constant": lambda rows: 1.0,
    "linear": lambda rows: float(rows),
    "out of cache beyond 4 rows": lambda rows: rows * (1.0 if rows <= 4 else 1.4),
    "best at 2": lambda rows: 0.3 + rows * (1.0 if rows <= 2 else 1.5),
    "best alone": lambda rows: rows**1.5,
}
BEST = {
    "constant": 32,
    "linear": 32,  # Of sizes that are alike the largest.
    "out of cache beyond 4 rows": 4,
    "best at 2": 2,
    "best alone": 1,
}


def simulate(sizes, cost, waiting, batches):
    """Rows of each batch, where so many always wait."""
    taken = []
    for _ in range(batches):
        rows = min(sizes.limit("key", waiting), waiting)
        sizes.ran("key", rows, cost(rows))
        taken.append(rows)
    return taken


@pytest.mark.parametrize("kind", COSTS)
def test_throughput_is_that_of_the_best_size(kind):
    sizes, cost = BatchSizes(32), COSTS[kind]
    first = simulate(sizes, cost, 64, 30)
    later = simulate(sizes, cost, 64, 1000)
    assert first[0] == 32
    assert max(set(later), key=later.count) == BEST[kind]
    best = max(2**k / cost(2**k) for k in range(6))
    assert sum(later) / sum(map(cost, later)) >= 0.98 * best


def test_sizes_follow_a_model_that_changes():
    sizes = BatchSizes(16)
    small = simulate(sizes, COSTS["best alone"], 64, 500)
    assert small[-1] == 1
    large = simulate(sizes, lambda rows: 3.0 + rows, 64, 2000)
    assert large[-1] == 16


def test_sizes_are_of_each_shape():
    sizes = BatchSizes(8)
    for _ in range(200):
        for key, cost in (("short", 1.0), ("long", 2.0)):
            rows = sizes.limit(key, 8)
            sizes.ran(key, rows, rows**cost)
    assert sizes.limit("short", 8) == 8
    assert sizes.limit("long", 8) == 1
    for at in range(1000):  # No memory for every shape that clients think of.
        sizes.ran(at, 4, 1.0)
    assert len(sizes._shapes) <= 64
    assert sizes.limit("another", 8) == 8


def test_requests_of_odd_sizes_still_share():
    sizes = BatchSizes(12)
    for _ in range(100):
        limit = sizes.limit("key", 30)
        rows = max(3, limit // 3 * 3)  # Of requests with three rows each.
        sizes.ran("key", rows, 1.0 + rows / 100)
    assert sizes.limit("key", 30) == 12


def test_a_request_that_waits_alone_leaves_nothing_behind():
    queue = JobQueue("m", Limits(max_batch=8))
    for at in range(100):  # As requests that share no batch: a key of their own.
        queue.put(Job({}, 2**62, at, lambda *_: None))
        queue.ran(queue.take(), 1.0)
    assert not queue._sizes._shapes


class _Quadratic:
    """A model whose runs take a time of the square of their rows."""

    platform = "test"
    runs_apart = False
    inputs = (TensorSpec("x", "FP32", (-1, 2)),)
    outputs = (TensorSpec("y", "FP32", (-1, 2)),)

    def instance(self):
        def run(arrays):
            time.sleep(2e-4 * len(arrays["x"]) ** 2)
            return {"y": 2 * arrays["x"]}

        return run


def test_a_scheduler_learns_while_it_serves():
    metrics = ModelMetrics()
    scheduler = Scheduler(
        "m", _Quadratic(), instances=1, limits=Limits(max_batch=16), observer=metrics
    )
    left, done = 600, threading.Event()
    answers = []

    def send():
        nonlocal left
        left -= 1
        x = np.full((1, 2), left, np.float32)
        scheduler.submit({"x": x}, lambda got, _: finish(x, got))

    def finish(x, got):
        answers.append(np.array_equal(got["y"], 2 * x))
        if left > 0:
            send()
        elif len(answers) >= 600:
            done.set()

    for _ in range(16):
        send()
    assert done.wait(60)
    assert scheduler.close(10)
    assert all(answers)
    runs = {rows: count for rows, (count, _) in metrics.batches.items()}
    assert max(runs, key=runs.get) <= 2
    assert sum(count for rows, count in runs.items() if rows > 4) < 30
