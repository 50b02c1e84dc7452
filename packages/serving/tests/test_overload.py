"""More requests than the model can answer: what is accepted is, the rest is refused."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from proa_serving.backends.registry import register_backend
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import (
    QueueFullError,
    RequestTimeoutError,
    ServingError,
)
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.queue import Limits

QUEUE = 4


class Gated:
    """y = x, while the gate is open; remembers what it ran."""

    platform = "gated"
    inputs = (TensorSpec("x", "INT64", (-1,)),)
    outputs = (TensorSpec("y", "INT64", (-1,)),)

    def __init__(self):
        self.ran, self.began, self.gate = [], threading.Event(), threading.Event()

    def load(self, path, options):
        return self

    def instance(self):
        def run(arrays):
            self.began.set()
            assert self.gate.wait(60)
            # A model that is quicker would be run on the event loop.
            time.sleep(0.001)
            self.ran.extend(arrays["x"].tolist())
            return {"y": arrays["x"]}

        return run


@pytest.fixture
def gated(serve, tmp_path):
    model = Gated()
    register_backend("gated", lambda: model)
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.gated").write_text("")
    (tmp_path / "m" / "config.toml").write_text("warmup = false")
    limits = Limits(max_batch=1, queue=QUEUE)
    with serve(repository=tmp_path, limits=limits) as server:
        try:
            yield server, model
        finally:
            model.gate.set()  # so that nothing waits at the end


def client_of(server, kind):
    address = server.http_address if kind is HttpClient else server.grpc_address
    return kind(address, timeout=60)


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_at_twice_what_is_possible_every_request_is_answered_or_refused(gated, kind):
    """Rounds of twice as many requests as the server has room for."""
    server, model = gated
    room = QUEUE + 1  # one runs
    answered, refused = set(), set()

    def send(number):
        with client_of(server, kind) as client:
            try:
                y = client.infer("m", {"x": np.array([number])})["y"]
            except QueueFullError:
                refused.add(number)
            else:
                assert y.tolist() == [number]
                answered.add(number)

    for at in range(10):
        numbers = range(at * 2 * room, (at + 1) * 2 * room)
        before = len(refused)
        with ThreadPoolExecutor(2 * room) as pool:
            jobs = [pool.submit(send, number) for number in numbers]
            # Those that find no room are refused while nothing runs through at all:
            # they do not wait.
            while len(refused) < before + room:
                threading.Event().wait(0.002)
                assert not all(job.done() for job in jobs)
            model.gate.set()
            for job in jobs:
                job.result(60)
        model.gate.clear()
        # One more, if the queue was full before the worker took its first.
        assert room <= len(refused) - before <= room + 1
    assert len(answered) + len(refused) == 20 * room
    assert sorted(model.ran) == sorted(answered)


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_a_request_that_expired_is_never_executed(gated, kind):
    server, model = gated
    found = Counter()

    def send(number, **parameters):
        with client_of(server, kind) as client:
            try:
                client.infer("m", {"x": np.array([number])}, parameters=parameters)
            except ServingError as error:
                found[type(error)] += 1
            else:
                found["ok"] += 1

    with ThreadPoolExecutor(QUEUE + 1) as pool:
        first = pool.submit(send, 0)
        assert model.began.wait(60)
        late = [pool.submit(send, n, timeout=50_000) for n in range(1, QUEUE + 1)]
        for job in late:
            job.result(60)  # expired behind the first, which still runs
        assert not first.done()
        model.gate.set()
        first.result(60)
        send(99)
    assert found[RequestTimeoutError] + found[QueueFullError] == QUEUE
    assert found[RequestTimeoutError] >= 1
    assert found["ok"] == 2
    assert model.ran == [0, 99]


def test_the_status_of_a_refusal_is_the_protocols(gated):
    server, model = gated
    with ThreadPoolExecutor(QUEUE + 1) as pool:

        def send():
            with HttpClient(server.http_address) as client:
                return client.infer("m", {"x": np.array([1])})

        jobs = [pool.submit(send)]
        assert model.began.wait(60)  # so that there is room for all of them
        jobs += [pool.submit(send) for _ in range(QUEUE)]
        with HttpClient(server.http_address) as client:
            while "queue_depth" in (text := client.metrics()):
                if f'queue_depth{{model="m",version="1"}} {QUEUE:.1f}' in text:
                    break
            with pytest.raises(QueueFullError) as http:
                client.infer("m", {"x": np.array([2])})
        assert http.value.http_status == 429
        with (
            GrpcClient(server.grpc_address) as client,
            pytest.raises(QueueFullError) as caught,
        ):
            client.infer("m", {"x": np.array([3])})
        assert caught.value.__cause__.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        model.gate.set()
        for job in jobs:
            assert job.result(60)["y"].tolist() == [1]
