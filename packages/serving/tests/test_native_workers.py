"""The native transport, where repeated requests wait for a worker of their model."""

import asyncio
import gc
import json
import random
import re
import socket
import threading
import time
import weakref

import numpy as np
import pytest
import small_models
from wire import Wire, packed, request_of

from proa_serving.backends.registry import register_backend
from proa_serving.client import HttpClient
from proa_serving.http.app import HttpApp
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.queue import Limits

native_module = pytest.importorskip(
    "proa_serving._native", reason="built where there is a C++ compiler"
)
BYTES = b"\r\n :0129aZ{}[]\0\xff"
LEARNED = 3  # requests until their like are known
SLEEP = 2e-3  # of the model, so that no run is on the event loop


class Wide:
    """y = 2 * x of rows of any width; NaN fails, and a first number of 9 takes 1 s."""

    platform = "wide"
    inputs = (TensorSpec("x", "FP32", (-1, -1)),)
    outputs = (TensorSpec("y", "FP32", (-1, -1)),)
    seen: list[weakref.ref] = []

    def instance(self):
        def run(arrays):
            x = arrays["x"]
            assert x.flags.aligned
            if np.isnan(x[0, 0]):
                raise ValueError("x must be numbers, got a NaN")
            self.seen.append(weakref.ref(x))
            time.sleep(1.0 if x[0, 0] == 9 else SLEEP)
            return {"y": x * 2}

        return run


class WideBackend:
    def load(self, path, options):
        return Wide()


@pytest.fixture
def model(tmp_path):
    register_backend("wide", WideBackend)
    Wide.seen.clear()
    path = tmp_path / "m.wide"
    path.touch()
    return {"m": path}


@pytest.fixture
def calls(monkeypatch):
    """The targets of requests that are answered as others are."""
    seen = []
    answer = HttpApp.answer

    def recorded(self, request):
        seen.append(request.target)
        return answer(self, request)

    monkeypatch.setattr(HttpApp, "answer", recorded)
    return seen


def wide(value, width=40_000, **options):
    return packed({"x": np.full((1, width), value, np.float32)}, **options)


def learn(wire, data):
    for _ in range(LEARNED):
        wire.infer(data)


def metric(client, name):
    """The sum of a metric of model m over all its labels."""
    pattern = rf'proa_serve_{name}{{[^}}]*model="m"[^}}]*}} (\S+)'
    return sum(map(float, re.findall(pattern, client.metrics())))


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("width", [4, 4_000, 40_000, 200_000])
def test_workers_answer_repeated_requests_without_a_task(serve, model, calls, width):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, wide(0, width))
        calls.clear()
        for value in range(20):
            found = wire.infer(wide(value, width))
            np.testing.assert_array_equal(
                found["y"], np.full((1, width), 2 * value, np.float32)
            )
            assert (found.model, found.version) == ("m", "1")
        assert calls == []
        with HttpClient(server.http_address) as client:
            for name in (
                *("requests_total", "request_seconds_count", "queue_seconds_count"),
                *("compute_seconds_count", "batch_rows_sum"),
            ):
                assert metric(client, name) == LEARNED + 20, name
            assert metric(client, "in_flight") == 0


def test_ids_that_change_are_answered_by_workers_too(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, wide(0, id="a000"))
        calls.clear()
        for value in range(10):
            found = wire.infer(wide(value, id=f"a{value:03}"))
            assert found.id == f"a{value:03}"
            assert found["y"][0, 0] == 2 * value
        assert calls == []


def test_requests_of_many_clients_are_answered_each_its_own(serve, model, calls):
    limits = Limits(max_batch=4)
    failed = []

    def work(server, first):
        with Wire(server.http_address) as wire:
            for value in range(first, first + 30):
                found = wire.infer(wide(value))
                if found["y"].shape != (1, 40_000) or (found["y"] != 2 * value).any():
                    failed.append(value)

    with serve(model, engine="native", limits=limits) as server:
        threads = [
            threading.Thread(target=work, args=(server, 100 * at + 10))
            for at in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with HttpClient(server.http_address) as client:
            assert metric(client, "requests_total") == 240
            assert metric(client, "batch_rows_sum") == 240
            assert metric(client, "batch_rows_count") < 240
            assert metric(client, "in_flight") == 0
    assert failed == []
    assert len(calls) < 100


def test_pipelined_requests_are_answered_in_order_by_workers(serve, model, calls):
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, wide(1, 4))
        for _ in range(3):
            wire.send(wide(5, 4) + live + wide(6, 4) + wide(7, 4))
            for value in (5, None, 6, 7):
                status, _, body = wire.answer()
                assert status == 200
                if value is None:
                    assert body == b'{"live":true}'
                else:
                    numbers = np.frombuffer(body[-16:], np.float32)
                    assert (numbers == 2 * value).all()


def test_a_model_that_fails_in_a_worker_says_so_and_the_connection_stays(
    serve, model, calls
):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, wide(1))
        for _ in range(3):
            wire.send(wide(np.nan))
            status, headers, body = wire.answer()
            assert status == 500
            assert "connection" not in headers
            assert "got a NaN" in json.loads(body)["error"]
            wire.infer(wide(1))
        with HttpClient(server.http_address) as client:
            assert metric(client, "request_failures_total") == 3
            assert metric(client, "in_flight") == 0


def test_a_full_queue_refuses_repeated_requests(serve, model, calls):
    limits = Limits(max_batch=1, queue=1)
    with serve(model, engine="native", limits=limits) as server:
        address = server.http_address
        with Wire(address) as one, Wire(address) as two, Wire(address) as three:
            for wire in (one, two, three):
                learn(wire, wide(1))
            with HttpClient(address) as client:
                calls.clear()
                one.send(wide(9))
                until(lambda: metric(client, "in_flight") == 1)
                time.sleep(0.1)
                two.send(wide(2))
                until(lambda: metric(client, "in_flight") == 2)
                three.send(wide(3))
                status, headers, body = three.answer()
                assert (status, "connection" in headers) == (429, False)
                assert b"at most 1 requests may wait" in body
                assert [wire.answer()[0] for wire in (one, two)] == [200, 200]
                assert three.infer(wide(3))["y"][0, 0] == 6
                assert metric(client, "in_flight") == 0
        assert b"/v2/models/m/infer" not in calls


def test_a_repeated_request_that_takes_too_long_is_answered_so(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, wide(1, parameters={"timeout": 200_000}))
        for _ in range(2):
            begin = time.monotonic()
            wire.send(wide(9, parameters={"timeout": 200_000}))
            status, _, body = wire.answer()
            assert 0.15 < time.monotonic() - begin < 0.9
            assert status == 504
            assert b"must answer within 0.2 s" in body
        time.sleep(1.0)  # for the model to end
        assert wire.infer(wide(4, parameters={"timeout": 200_000}))["y"][0, 0] == 8
        with HttpClient(server.http_address) as client:
            assert metric(client, "request_failures_total") == 2
            assert metric(client, "in_flight") == 0


@pytest.mark.parametrize("queued", [False, True])
def test_a_client_that_leaves_cancels_its_repeated_request(serve, model, calls, queued):
    limits = Limits(max_batch=1)
    with (
        serve(model, engine="native", limits=limits) as server,
        Wire(server.http_address) as other,
        HttpClient(server.http_address) as client,
    ):
        learn(other, wide(1))
        wire = Wire(server.http_address)
        learn(wire, wide(1))
        before = len(Wide.seen)
        if queued:
            other.send(wide(9))
            until(lambda: metric(client, "in_flight") == 1)
            time.sleep(0.1)
        wire.send(wide(2 if queued else 9))
        until(lambda: metric(client, "in_flight") == 1 + queued)
        time.sleep(0.1)
        wire.socket.close()
        until(lambda: metric(client, "in_flight") == queued, 0.7)
        assert metric(client, "request_failures_total") == 1
        if queued:
            other.answer()
        assert other.infer(wide(3))["y"][0, 0] == 6
        assert len(Wide.seen) == before + 2  # What had not begun was never run.
        text = client.metrics().partition("\nproa_serve_in_flight_bytes ")[2]
        assert float(text.partition("\n")[0]) == 0


def test_the_successor_of_a_model_answers_repeated_requests(serve, tmp_path, calls):
    folder = tmp_path / "models" / "m"
    small_models.write_linear(folder / "1" / "model.linear", sleep=SLEEP)
    with (
        serve(
            repository=tmp_path / "models", model_control=True, engine="native"
        ) as it,
        HttpClient(it.http_address) as client,
        Wire(it.http_address) as wire,
    ):
        learn(wire, request_of(1))
        ended = threading.Event()
        failed = []

        def work():
            with Wire(it.http_address) as wire:
                while not ended.is_set():
                    wire.send(request_of(1))
                    failed.extend(
                        status for status, *_ in [wire.answer()] if status != 200
                    )

        thread = threading.Thread(target=work)
        thread.start()
        for scale in (2.0, 3.0, 4.0):
            version = int(scale)
            small_models.write_linear(
                folder / str(version) / "model.linear", scale=scale, sleep=SLEEP
            )
            client.load_model("m")
            for _ in range(5):
                found = wire.infer(request_of(1))
                y = scale * small_models.linear(np.ones((1, 4), np.float32))
                np.testing.assert_allclose(found["y"], y, rtol=1e-5)
                assert found.version == str(version)
        ended.set()
        thread.join()
        assert failed == []


@pytest.mark.parametrize("grace", [0.05, 5.0])
def test_a_stopping_server_answers_repeated_requests_that_run(
    serve, model, calls, grace
):
    server = serve(model, engine="native").__enter__()
    with Wire(server.http_address) as wire:
        learn(wire, wide(1))
        calls.clear()
        wire.send(wide(9))
        time.sleep(0.3)
        stopping = threading.Thread(target=server.stop, args=(grace,))
        stopping.start()
        status, headers, body = wire.answer()
        assert calls == []
        assert headers["connection"] == "close"
        if grace < 1:
            assert status == 503
            assert b"the request was cut" in body
        else:
            assert status == 200
        assert wire.socket.recv(1) == b""
        stopping.join()


def test_inputs_are_freed_as_soon_as_they_are_answered(serve, model, calls):
    gc.disable()
    try:
        with serve(model, engine="native") as server:
            with Wire(server.http_address) as wire:
                for value in range(10):
                    wire.infer(wide(value))
                time.sleep(0.1)
                held = [each() for each in Wide.seen if each() is not None]
                assert held == []
            # The same of requests that are answered as others are.
            with HttpClient(server.http_address) as client:
                x = np.ones((1, 40_000), np.float32)
                for _ in range(10):
                    client.infer("m", {"x": x})
            time.sleep(0.1)
            held = [each() for each in Wide.seen if each() is not None]
            assert held == []
    finally:
        gc.enable()


def test_a_large_request_may_arrive_in_many_reads(serve, model, calls):
    data = wide(3)
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, data)
        calls.clear()
        for chunk in (1_000, 5_000, 70_001):
            for at in range(0, len(data), chunk):
                wire.send(data[at : at + chunk])
                time.sleep(2e-4)
            status, _, body = wire.answer()
            assert status == 200
            assert (np.frombuffer(body[-160_000:], np.float32) == 6).all()
        assert calls == []


@pytest.mark.fuzz
def test_mutated_requests_for_workers_are_answered_as_by_the_other_engine(
    serve, model, calls
):
    rng = random.Random(18)
    plain = wide(1.5, 4)
    with serve(model, engine="native") as one, serve(model, engine="python") as other:
        for _ in range(300):
            data = bytearray(plain)
            for _ in range(rng.choice((1, 1, 2, 5))):
                if rng.random() < 0.2:
                    del data[rng.randrange(len(data))]
                else:
                    data[rng.randrange(len(data))] = rng.choice(BYTES)
            found = [_outcome(server, plain, data) for server in (one, other)]
            if found[0] != found[1]:
                # The end of what a client sends closes its connection, which a busy
                # server may read before it answers: so wait for the answers first.
                found = [_outcome(server, plain, data, 5) for server in (one, other)]
            assert found[0] == found[1], bytes(data)


def _outcome(server, plain, data, patience=None):
    """All that comes for good requests and ``data`` after them.

    The client then closes its half, or first waits as many seconds for more.
    """
    with Wire(server.http_address) as wire:
        learn(wire, plain)
        wire.send(bytes(data))
        if patience is None:
            wire.socket.shutdown(socket.SHUT_WR)
        else:
            wire.socket.settimeout(patience)
        found = b""
        while True:
            try:
                part = wire.socket.recv(2**16)
            except TimeoutError:
                return found
            except ConnectionResetError:
                return found + b" reset"
            if not part:
                return found
            found += part


class Plain(asyncio.BufferedProtocol):
    def get_buffer(self, size_hint):
        raise AssertionError("nothing is received in this test")


@pytest.fixture
def connected():
    """An engine, one of its transports, and the other end of that."""
    loop = asyncio.new_event_loop()
    here, there = socket.socketpair()
    here.setblocking(False)
    errors = []
    engine = native_module.Engine(loop.call_soon, errors.append, 1024)
    transport = engine.connect(here, Plain())
    yield engine, transport, there, errors
    there.close()
    engine.close()
    loop.close()


def test_answers_of_threads_are_settled_by_the_event_loop(connected):
    engine, transport, there, errors = connected
    settled = []
    threads = [
        threading.Thread(target=transport.answer, args=([b"ab", b"c"], settled.append))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert there.recv(100) == b"abc" * 4
    assert settled == []
    until(lambda: (engine.poll(), settled)[1])
    assert settled == [True] * 4
    assert errors == []


@pytest.mark.parametrize("parts", [[], [bytes(70_000)], [b"a", bytes(65_536)]])
def test_answers_that_threads_do_not_send_are_left_to_the_event_loop(connected, parts):
    engine, transport, there, _ = connected
    settled = []
    transport.answer(parts, settled.append)
    until(lambda: (engine.poll(), settled)[1])
    assert settled == [False]
    assert transport.get_write_buffer_size() == 0
    there.setblocking(False)
    with pytest.raises(BlockingIOError):
        there.recv(1)


def test_a_connection_that_is_lost_sends_no_answers(connected):
    engine, transport, _, _ = connected
    settled = []
    transport.abort()
    transport.answer([b"a"], settled.append)
    until(lambda: (engine.poll(), settled)[1])
    assert settled == [False]


def test_what_a_thread_cannot_send_at_once_waits_for_the_client(connected):
    engine, transport, there, _ = connected
    settled = []
    while transport.get_write_buffer_size() == 0:
        transport.answer([b"a" * 60_000], settled.append)
    count, left = len(settled), transport.get_write_buffer_size()
    assert count == 0
    assert 0 < left <= 60_000
    transport.answer([b"b"], settled.append)  # not before what waits
    received = b""
    until(lambda: (engine.poll(), settled)[1])
    assert settled[-1] is False
    there.setblocking(False)
    while len(received) < 60_000 * (len(settled) - 1):
        engine.poll()
        try:
            received += there.recv(2**20)
        except BlockingIOError:
            continue
    assert set(received) == {ord("a")}


def test_answers_must_be_buffers_and_callbacks_that_fail_are_reported(connected):
    engine, transport, there, errors = connected
    with pytest.raises(TypeError, match="expected a sequence of buffers"):
        transport.answer(3, print)
    with pytest.raises(TypeError, match="bytes-like"):
        transport.answer([b"a", 3], print)

    def fail(sent):
        raise RuntimeError("of the test")

    transport.answer([b"z"], fail)
    until(lambda: (engine.poll(), errors)[1])
    assert [str(error) for error in errors] == ["of the test"]
    assert there.recv(10) == b"z"  # and nothing of what was refused
