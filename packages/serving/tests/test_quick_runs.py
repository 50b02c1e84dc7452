"""Models that run faster than a worker wakes up run on the event loop."""

import threading
import time

import numpy as np
import pytest
import small_models

import proa_serving.schedule.quick as quick_runs
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


class RecordingBackend(small_models.LinearBackend):
    def load(self, path, options):
        import json

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
    made = []
    quick = QuickRuns(lambda: made.append(1) or len)
    for _ in range(3):
        quick.ran_in_worker(1000, 1e-5)
        assert quick.instance(1000) is None
    quick.ran_in_worker(1000, 1e-3)  # one that waited for the GIL
    assert quick.instance(1000) is len
    assert quick.instance(5000) is None
    quick.ran_here(1000, 1.0)  # one long run changes nothing
    assert quick.instance(1000) is len
    for _ in range(30):
        quick.ran_here(1000, 2e-4)
    assert quick.instance(1000) is None
    for _ in range(64):
        quick.ran_in_worker(1000, 1e-5)
    assert quick.instance(1000) is len
    assert made == [1]


def test_a_model_without_another_instance_stays_with_its_workers():
    def fail():
        raise MemoryError

    quick = QuickRuns(fail)
    for _ in range(20):
        quick.ran_in_worker(1000, 1e-5)
    assert quick.instance(1000) is None
