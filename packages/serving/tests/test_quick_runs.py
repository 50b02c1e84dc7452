"""Models that run faster than a worker wakes up run on the event loop."""

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import small_models

import proa_serving.schedule.quick as quick_runs
import proa_serving.schedule.scheduler as scheduler
from proa_serving.backends.registry import register_backend
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import ModelFailedError
from proa_serving.schedule.queue import Limits
from proa_serving.schedule.quick import QuickRuns

X = np.ones((1, 4), np.float32)


class Recording(small_models.LinearModel):
    """The linear model, and the names of the threads that ran it."""

    threads: list[str] = []

    def instance(self):
        run = super().instance()

        def recorded(arrays):
            self.threads.append(threading.current_thread().name)
            if arrays["x"].shape[0] > 100:
                time.sleep(0.001)
            return run(arrays)

        return recorded


class TurningBackend(small_models.LinearBackend):
    """The linear model, which takes ``seconds`` longer when they change."""

    seconds = 0.0

    def load(self, path, options):
        run = small_models.LinearModel(json.loads(path.read_text()))
        instance = run.instance

        def turning():
            plain = instance()

            def late(arrays):
                time.sleep(self.seconds)
                return plain(arrays)

            return late

        run.instance = turning
        return run


class RecordingBackend(small_models.LinearBackend):
    def load(self, path, options):
        return Recording(json.loads(path.read_text()))


@pytest.fixture
def model(tmp_path):
    register_backend("recording", RecordingBackend)
    Recording.threads.clear()
    return {"m": small_models.write_linear(tmp_path / "m.recording")}


@pytest.fixture
def threads():
    return Recording.threads


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_a_quick_model_runs_on_the_event_loop(serve, model, threads, kind, monkeypatch):
    monkeypatch.setattr(quick_runs, "_SECONDS", 0.01)  # by any machine
    with serve(model) as server:
        address = {HttpClient: server.http_address, GrpcClient: server.grpc_address}
        with kind(address[kind]) as client:
            for at in range(400):
                x = np.full((1, 4), at, np.float32)
                y = client.infer("m", {"x": x})["y"]
                np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-5)
            assert threads[0] == "proa-serve-m-0"
            assert "proa-serve" in threads  # the thread of BackgroundServer's loop
            with pytest.raises(ModelFailedError, match="got a NaN"):
                client.infer("m", {"x": X * np.nan})
        with HttpClient(server.http_address) as client:
            held = client.metrics()
    # The failed request waited, wherever it ran, and did not end a run.
    for line, count in {
        "batch_rows": 400,
        "compute_seconds": 400,
        "queue_seconds": 401,
    }.items():
        expected = f'proa_serve_{line}_count{{model="m",version="1"}} {count}.0'
        assert expected in held


def test_larger_requests_of_a_quick_model_stay_with_the_workers(serve, model, threads):
    with serve(model) as server, HttpClient(server.http_address) as client:
        for _ in range(100):
            client.infer("m", {"x": X})
        threads.clear()
        for _ in range(20):
            client.infer("m", {"x": np.ones((200, 4), np.float32)})
    assert set(threads) == {"proa-serve-m-0"}


def test_a_delay_for_batches_keeps_requests_in_the_queue(serve, model, threads):
    with (
        serve(model, limits=Limits(max_delay_us=1)) as server,
        HttpClient(server.http_address) as client,
    ):
        for _ in range(100):
            client.infer("m", {"x": X})
    assert set(threads) == {"proa-serve-m-0"}


def test_a_size_that_became_slow_returns_to_the_workers():
    results = []
    quick = QuickRuns(lambda: results.append(1) or len)
    for _ in range(3):
        quick.ran_in_worker(1000, 1e-5)
        assert quick.instance(1000) is None
    quick.ran_in_worker(1000, 1e-3)  # one that waited for the GIL
    assert quick.instance(1000) is len
    assert quick.instance(5000) is None
    quick.ran_here(1000, 0.01)  # one that the machine held up changes nothing
    assert quick.instance(1000) is len
    for _ in range(30):
        quick.ran_here(1000, 2e-4)
    assert quick.instance(1000) is None
    for _ in range(64):
        quick.ran_in_worker(1000, 1e-5)
    assert quick.instance(1000) is len
    assert results == [1]


def test_a_run_that_blocks_the_event_loop_is_the_last_there():
    quick = QuickRuns(lambda: len)

    def runs_until_quick():
        count = 0
        while quick.instance(1000) is None:
            quick.ran_in_worker(1000, 1e-5)
            count += 1
        return count

    assert runs_until_quick() == 4
    waited = []
    for _ in range(10):
        quick.ran_here(1000, 1.0)
        assert quick.instance(1000) is None
        waited.append(runs_until_quick())
    assert waited[:4] == [128, 256, 512, 1024]
    assert waited[-1] == 4096
    quick.ran_here(1000, 1.0)
    for _ in range(100):  # At its best it is quick, and yet it is not.
        quick.ran_in_worker(1000, 1e-5)
        quick.ran_in_worker(1000, 1.0)
    assert quick.instance(1000) is None


def test_a_model_that_becomes_slow_does_not_hold_up_health_checks(serve, tmp_path):
    register_backend("turning", TurningBackend)
    path = small_models.write_linear(tmp_path / "m.turning")
    TurningBackend.seconds = 0.0
    with (
        serve({"m": path}, instances=2) as server,
        HttpClient(server.http_address) as client,
        HttpClient(server.http_address) as other,
        ThreadPoolExecutor(8) as pool,
    ):
        for _ in range(100):
            client.infer("m", {"x": X})
        TurningBackend.seconds = 0.3
        with contextlib.ExitStack() as stack:
            makers = [HttpClient(server.http_address) for _ in range(8)]
            clients = [stack.enter_context(held) for held in makers]
            answers = [pool.submit(held.infer, "m", {"x": X}) for held in clients]
            late = []
            while not all(held.done() for held in answers):
                began = time.monotonic()
                assert other.live()
                late.append(time.monotonic() - began)
            for held in answers:
                y = held.result()["y"]
                np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
    # One run was on the event loop before it was known.
    assert sorted(late)[-2] < 0.3
    assert len(late) > 8


def test_a_busy_quick_model_is_taken_from_its_workers(
    serve, model, threads, monkeypatch
):
    """Under load requests would find the worker busy for ever, and queue."""
    monkeypatch.setattr(quick_runs, "_SECONDS", 0.01)  # by any machine
    monkeypatch.setattr(quick_runs, "_TOO_LONG", 10.0)
    monkeypatch.setattr(scheduler, "_BUSY_SECONDS", 0.05)
    with serve(model) as server, ThreadPoolExecutor(8) as pool:

        def work(count):
            with HttpClient(server.http_address) as client:
                for _ in range(count):
                    client.infer("m", {"x": X})

        list(pool.map(work, [300] * 8))
        threads.clear()
        list(pool.map(work, [100] * 8))
    assert threads.count("proa-serve") > 400


def test_a_model_without_another_instance_stays_with_its_workers():
    def fail():
        raise MemoryError

    quick = QuickRuns(fail)
    for _ in range(20):
        quick.ran_in_worker(1000, 1e-5)
    assert quick.instance(1000) is None
