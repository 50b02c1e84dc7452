"""Priorities, time limits, preferred sizes and padding decide what runs together."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import small_models

from proa_serving.backends.registry import register_backend
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import InvalidRequestError, RequestTimeoutError
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.queue import Job, JobQueue, Limits

HOUR = 3_600_000_000  # microseconds


def job(rows, key="k", **options):
    return Job({}, rows, key, lambda *_: None, **options)


def queue_of(jobs, **limits):
    queue = JobQueue("m", Limits(**limits))
    for held in jobs:
        queue.put(held)
    return queue


def test_higher_priorities_go_first_and_lower_ones_fill_the_batch():
    low, high, middle = job(1, priority=3), job(2, priority=1), job(1, priority=2)
    other = job(1, "other", priority=2)
    queue = queue_of([low, high, middle, other], max_batch=4, priorities=3)
    assert queue.take() == [high, middle, low]
    assert queue.take() == [other]


def test_a_preferred_size_runs_at_once_and_the_delay_takes_what_is_there():
    jobs = [job(1) for _ in range(7)]
    limits = {"max_batch": 16, "max_delay_us": HOUR, "preferred": (2, 4)}
    queue = queue_of(jobs, **limits)
    assert queue.take() == jobs[:4]
    assert queue.take() == jobs[4:6]
    queue.close()  # as at the end of the delay
    assert queue.take() == jobs[6:]


def test_an_expired_job_is_answered_and_not_run():
    found = []
    late = Job(
        {}, 1, "k", lambda result, _: found.append(result), expires=time.monotonic()
    )
    live = job(1)
    queue = queue_of([late, live], max_batch=8)
    assert queue.take() == [live]
    assert isinstance(found[0], RequestTimeoutError)
    assert len(queue) == 0


@pytest.mark.parametrize(("chosen", "level"), [(None, 2), (0, 2), (1, 1), (3, 3)])
def test_a_request_chooses_its_priority(chosen, level):
    assert Limits(priorities=3).level(chosen) == level
    assert Limits().level(chosen) == 0


@pytest.mark.parametrize("chosen", [4, -1, "1", True, 1.0])
def test_a_priority_that_is_none_is_refused(chosen):
    with pytest.raises(InvalidRequestError, match="priority must be 1 to 3"):
        Limits(priorities=3).level(chosen)


class Recorder:
    """Adds up each row; remembers what it ran and waits at a gate."""

    platform = "recorder"
    inputs = (TensorSpec("x", "FP32", (-1, -1)), TensorSpec("n", "INT64", (-1,)))
    outputs = (TensorSpec("sum", "FP32", (-1,)), TensorSpec("same", "FP32", (-1, -1)))

    def __init__(self):
        self.ran, self.gate = [], threading.Event()

    def load(self, path, options):
        return self

    def instance(self):
        def run(arrays):
            self.gate.wait(10)
            x = arrays["x"]
            self.ran.append((x.shape, x[:, 0].tolist(), arrays["n"].tolist()))
            return {"sum": x.sum(1), "same": x}

        return run


@pytest.fixture
def recorder(tmp_path):
    held = Recorder()
    register_backend("recorder", lambda: held)
    path = tmp_path / "m" / "1" / "model.recorder"
    path.parent.mkdir(parents=True)
    path.write_text("")
    return held


def settings(tmp_path, text):
    (tmp_path / "m" / "config.toml").write_text("warmup = false\n" + text)


PADDED = """
[[buckets]]
input = "x"
axis = 1
sizes = [4, 8]
length = "n"
outputs = {same = 1}
"""


def test_requests_of_different_lengths_share_a_padded_batch(serve, tmp_path, recorder):
    settings(tmp_path, "max_delay_us = 200000\nmax_batch = 3\n" + PADDED)
    recorder.gate.set()
    rows = [np.arange(1, size + 1, dtype=np.float32)[None] for size in (1, 3, 4)]
    with serve(repository=tmp_path) as server:
        client = GrpcClient(server.grpc_address)
        with client, ThreadPoolExecutor(3) as pool:
            assert [spec.name for spec in client.model_metadata("m").inputs] == ["x"]
            answers = list(pool.map(lambda x: client.infer("m", {"x": x}), rows))
            long = np.ones((1, 20), np.float32)  # beyond every bucket: as it is
            assert client.infer("m", {"x": long})["sum"].tolist() == [20]
    for x, answer in zip(rows, answers, strict=True):
        np.testing.assert_array_equal(answer["sum"], x.sum(1))
        np.testing.assert_array_equal(answer["same"], x)
    assert recorder.ran[0][0] == (3, 4)
    assert sorted(recorder.ran[0][2]) == [1, 3, 4]
    assert recorder.ran[1][0] == (1, 20)


def test_priorities_and_time_limits_over_the_wire(serve, tmp_path, recorder):
    settings(tmp_path, "max_batch = 1\npriorities = 2\n" + PADDED)
    with serve(repository=tmp_path) as server:

        def infer(at):
            with HttpClient(server.http_address) as client:
                x = np.full((1, 2), at, np.float32)
                parameters = {"priority": 1 if at == 3 else 2}
                if at == 2:
                    parameters["timeout"] = 50_000
                try:
                    client.infer("m", {"x": x}, parameters=parameters)
                except RequestTimeoutError:
                    return "late"
                return "done"

        with ThreadPoolExecutor(4) as pool:
            jobs = []
            for at in range(4):
                jobs.append(pool.submit(infer, at))
                time.sleep(0.05)
            assert jobs[2].result() == "late"
            recorder.gate.set()
            assert [held.result() for held in jobs] == ["done", "done", "late", "done"]
    # 0 ran when nothing else was there; 2 never ran.
    assert [first for _, (first,), _ in recorder.ran] == [0, 3, 1]


def test_a_wait_limit_of_the_model_is_enforced(serve, tmp_path, recorder):
    settings(tmp_path, "max_batch = 1\nwait_us = 30000\n" + PADDED)
    with serve(repository=tmp_path) as server, ThreadPoolExecutor(2) as pool:

        def infer(at):
            with HttpClient(server.http_address) as client:
                x = np.full((1, 2), at, np.float32)
                return client.infer("m", {"x": x})["sum"].tolist()

        first = pool.submit(infer, 1)
        time.sleep(0.1)
        second = pool.submit(infer, 2)
        time.sleep(0.1)
        recorder.gate.set()
        assert first.result() == [2]
        with pytest.raises(RequestTimeoutError, match="must begin in time"):
            second.result()
    assert len(recorder.ran) == 1


def test_small_models_still_answer_at_once(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    x = np.ones((1, 4), np.float32)
    with (
        serve(repository=tmp_path, instances=0, threads=0) as server,
        HttpClient(server.http_address) as client,
    ):
        for _ in range(20):
            y = client.infer("m", {"x": x})["y"]
    np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-6)
