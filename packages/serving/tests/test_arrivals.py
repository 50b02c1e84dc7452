"""Requests that the native transport receives and queues without any Python."""

import threading
import time

import numpy as np
import pytest
from wire import Wire, packed

from proa_serving.backends.registry import register_backend
from proa_serving.client import HttpClient
from proa_serving.http.app import HttpApp
from proa_serving.http.connection import HttpConnection
from proa_serving.http.repeats import HttpRepeats
from proa_serving.protocol.messages import TensorSpec
from proa_serving.schedule.gate import PlainGate
from proa_serving.schedule.queue import Limits

native_module = pytest.importorskip(
    "proa_serving._native", reason="built where there is a C++ compiler"
)
LEARNED = 4  # requests until their like are received natively


class Slow:
    """y = 2 * x[:, :4]: in 2 ms, or so many seconds as the first number is above 1.

    Rows that ran together are in ``rows``.
    """

    platform = "slow"
    inputs = (TensorSpec("x", "FP32", (-1, -1)),)
    outputs = (TensorSpec("y", "FP32", (-1, -1)),)
    rows: list[int] = []

    def instance(self):
        def run(arrays):
            x = arrays["x"]
            self.rows.append(len(x))
            time.sleep(float(x[0, 0]) - 1 if x[0, 0] > 1 else 2e-3)
            return {"y": x[:, :4] * 2}

        return run


class SlowBackend:
    def load(self, path, options):
        return Slow()


@pytest.fixture
def model(tmp_path):
    register_backend("slow", SlowBackend)
    Slow.rows.clear()
    path = tmp_path / "m.slow"
    path.touch()
    return {"m": path}


@pytest.fixture
def python(monkeypatch):
    """Names of the functions of Python that serve requests, as they are called."""
    called = []

    def watch(held, name):
        function = getattr(held, name)

        def watched(*args):
            called.append(name)
            return function(*args)

        monkeypatch.setattr(held, name, watched)

    watch(HttpRepeats, "begin")
    watch(HttpRepeats, "_take_parsed")
    watch(HttpConnection, "get_buffer")
    watch(HttpConnection, "buffer_updated")
    watch(HttpConnection, "answered")
    watch(HttpApp, "answer")
    return called


def slow(value, width=40_000):
    return packed({"x": np.full((1, width), value, np.float32)})


def learn(wire, data):
    for _ in range(LEARNED):
        wire.infer(data)


def metric(client, name):
    (line,) = (
        line for line in client.metrics().splitlines() if line.startswith(f"{name} ")
    )
    return float(line.split()[1])


@pytest.mark.parametrize("width", [4, 4_000, 40_000, 1_000_000])
def test_a_repeated_request_runs_no_python_on_the_event_loop(
    serve, model, python, width
):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, slow(1, width))
        python.clear()
        for value in (0.5, 0.25, 1):
            found = wire.infer(slow(value, width))["y"]
            assert found.shape == (1, 4)
            assert (found == 2 * value).all()
        assert python == []


def test_requests_that_wait_share_a_batch(serve, model, python):
    limits = Limits(max_batch=4)
    with serve(model, engine="native", limits=limits) as server:
        wires = [Wire(server.http_address) for _ in range(5)]
        for wire in wires:
            learn(wire, slow(1))
        Slow.rows.clear()
        wires[0].send(slow(1.5))
        time.sleep(0.1)
        for number, wire in enumerate(wires[1:], 1):
            wire.send(slow(number / 8))
        for number, wire in enumerate(wires[1:], 1):
            assert wire.answer()[2][-4:] == np.float32(number / 4).tobytes()
            wire.socket.close()
        assert Slow.rows == [1, 4]
        wires[0].socket.close()


def test_what_follows_a_request_that_came_too_slowly_is_not_served(serve, model):
    data = slow(1)
    with (
        serve(model, engine="native", timeout_s=0.5) as server,
        Wire(server.http_address) as wire,
        HttpClient(server.http_address) as client,
    ):
        learn(wire, data)
        ran = len(Slow.rows)
        wire.send(data[:100_000])
        status, headers, _ = wire.answer()
        assert (status, headers["connection"]) == (408, "close")
        wire.send(data[100_000:])
        with pytest.raises(AssertionError, match="closed the connection"):
            wire.answer()
        assert len(Slow.rows) == ran
        assert metric(client, "proa_serve_in_flight_bytes") == 0


@pytest.mark.parametrize("sent", [100_000, 160_000])
def test_a_full_budget_refuses_what_it_has_no_room_for(serve, model, sent):
    data = slow(1)
    limits = {"max_request_bytes": 170_000, "max_in_flight_bytes": 200_000}
    with (
        serve(model, engine="native", max_json_bytes=1000, **limits) as server,
        Wire(server.http_address) as one,
        Wire(server.http_address) as two,
        HttpClient(server.http_address) as client,
    ):
        learn(one, data)
        learn(two, data)
        one.send(slow(2))
        time.sleep(0.2)
        two.send(data[:sent])
        status, _, body = two.answer()
        assert status == 429
        assert b"may hold 200000 bytes" in body
        assert one.answer()[0] == 200
        assert metric(client, "proa_serve_in_flight_bytes") == 0


def test_a_client_that_leaves_half_way_is_forgotten(serve, model):
    data = slow(1)
    with serve(model, engine="native") as server:
        wire = Wire(server.http_address)
        learn(wire, data)
        wire.send(data[:100_000])
        time.sleep(0.1)
        with HttpClient(server.http_address) as client:
            assert metric(client, "proa_serve_in_flight_bytes") > 90_000
            wire.socket.close()
            time.sleep(0.1)
            assert metric(client, "proa_serve_in_flight_bytes") == 0


def test_a_request_after_one_that_waits_is_answered_after_it(serve, model):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        learn(wire, slow(1))
        first, second = slow(1.25), slow(0.5)
        wire.send(first + second[:50_000])
        time.sleep(0.1)
        wire.send(second[50_000:] + slow(0.75))
        for value in (1.25, 0.5, 0.75):
            status, _, body = wire.answer()
            assert status == 200
            assert body[-4:] == np.float32(2 * value).tobytes()
        assert wire.infer(slow(0.125))["y"][0, 0] == 0.25


def test_a_request_that_waits_is_answered_by_the_successor_of_its_model(
    serve, tmp_path
):
    register_backend("slow", SlowBackend)
    folder = tmp_path / "models" / "m"
    for version in "12":
        (folder / version).mkdir(parents=True)
        (folder / version / "model.slow").touch()
    (folder / "config.toml").write_text('versions = "all"\n')
    (folder / "2").rename(tmp_path / "2")
    with (
        serve(
            repository=tmp_path / "models",
            engine="native",
            all_versions=True,
            model_control=True,
        ) as server,
        Wire(server.http_address) as one,
        Wire(server.http_address) as two,
        HttpClient(server.http_address) as client,
    ):
        learn(one, slow(1))
        learn(two, slow(1))
        one.send(slow(2))
        time.sleep(0.1)
        two.send(slow(0.5))
        (tmp_path / "2").rename(folder / "2")
        client.load_model("m")
        bodies = [wire.answer()[2] for wire in (one, two)]
        assert b'"model_version":"1"' in bodies[0]
        assert b'"model_version":"2"' in bodies[1]
        assert b'"model_version":"2"' in _answer(one, slow(0.5))
        assert metric(client, "proa_serve_in_flight_bytes") == 0


def _answer(wire, data):
    wire.send(data)
    return wire.answer()[2]


@pytest.fixture(params=["native", "plain"])
def gate(request):
    return native_module.Inbox(8) if request.param == "native" else PlainGate()


def test_a_gate_opens_by_a_notify_and_not_before(gate):
    ticket, woken = gate.ticket(), []

    def wait():
        gate.wait(ticket, None)
        woken.append(time.monotonic())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert woken == []
    gate.notify()
    time.sleep(0.1)
    assert len(woken) == 1
    gate.notify(True)
    for thread in threads:
        thread.join(5)
    assert len(woken) == 2
    gate.wait(ticket, None)  # there was one since


def test_a_gate_opens_when_the_time_is_over(gate):
    begin = time.monotonic()
    gate.wait(gate.ticket(), 0.05)
    assert 0.04 < time.monotonic() - begin < 5
    assert (len(gate), gate.pop(), gate.jobs, gate.closed) == (0, None, 0, False)


def test_a_lane_makes_arrivals_alone():
    with pytest.raises(TypeError, match="subclass of Arrival"):
        native_module.Lane(native_module.Inbox(1), int, None, 1.0)
    with pytest.raises(TypeError, match="cannot create"):
        native_module.Arrival()
