"""The native transport: it answers repeated requests as the protocol would."""

import asyncio
import random
import socket
import time

import numpy as np
import pytest
import slow_calls
import small_models
from wire import WARM, Wire, packed, request_of

from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.backends.registry import register_backend
from proa_serving.client import HttpClient
from proa_serving.http.app import HttpApp
from proa_serving.http.connection import HttpConnection
from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.messages import TensorSpec
from proa_serving.protocol.rest import HEADER_LENGTH, decode_response
from proa_serving.transport import native

native_module = pytest.importorskip(
    "proa_serving._native", reason="built where there is a C++ compiler"
)
BYTES = b"\r\n :0129aZ{}[]\0\xff"


class Mixed:
    """total = sum of raw + x, of inputs that are not aligned one after the other."""

    platform = "mixed"
    inputs = (TensorSpec("raw", "UINT8", (3,)), TensorSpec("x", "FP64", (-1,)))
    outputs = (TensorSpec("total", "FP64", (-1,)), TensorSpec("big", "UINT8", (-1,)))

    def instance(self):
        def run(arrays):
            assert arrays["x"].flags.aligned
            total = arrays["x"] + arrays["raw"].sum()
            return {"total": total, "big": np.zeros(2**20, np.uint8)}

        return run


class MixedBackend:
    def load(self, path, options):
        return Mixed()


@pytest.fixture
def calls(monkeypatch):
    """The requests that did not take the fast path; every model is quick."""
    return slow_calls.record(monkeypatch, HttpApp, "answer", "target")


@pytest.fixture
def model(tmp_path):
    return {"m": small_models.write_linear(tmp_path / "m.linear")}


def test_repeated_requests_are_answered_without_the_protocol(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(request_of(0))
        calls.clear()
        for value in range(100):
            found = wire.infer(request_of(value))
            x = np.full((1, 4), value, np.float32)
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)
            assert found["label"] == small_models.linear(x).argmax(-1)
            assert (found.model, found.version) == ("m", "1")
        assert calls == []
        with HttpClient(server.http_address) as client:
            text = client.metrics()
    for line in ("requests_total", "request_seconds_count", "queue_seconds_count"):
        protocol = 'protocol="http",' if line == "requests_total" else ""
        labels = f'model="m",{protocol}version="1"'
        assert f"proa_serve_{line}{{{labels}}} {WARM + 100}.0" in text


def test_other_requests_on_the_connection_are_answered_as_ever(serve, model, calls):
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(request_of(1))
        for rows in (1, 2, 3, 1, 2, 3, 1):
            wire.send(live)
            assert wire.answer()[0] == 200
            found = wire.infer(request_of(7, rows))
            x = np.full((rows, 4), 7, np.float32)
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)


def test_a_repeated_request_may_arrive_in_two_reads(serve, model, calls):
    data = request_of(3)
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(data)
        for at in range(1, len(data), 3):
            wire.send(data[:at])
            time.sleep(0.001)
            found = wire.infer(data[at:])
            x = np.full((1, 4), 3, np.float32)
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)


def test_pipelined_requests_are_answered_in_order(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(request_of(1))
        live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        calls.clear()
        wire.send(b"".join([*map(request_of, range(50)), live, request_of(50)]))
        for value in range(50):
            _status, headers, body = wire.answer()
            found = decode_response(body, headers[HEADER_LENGTH.lower()])
            x = np.full((1, 4), value, np.float32)
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)
        assert wire.answer()[2] == b'{"live":true}'
        assert wire.answer()[0] == 200
        assert calls[0] == b"/v2/health/live"


def test_a_model_that_fails_says_so_and_the_connection_stays(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(request_of(1))
        for _ in range(3):
            wire.send(request_of(np.nan))
            status, _, body = wire.answer()
            assert status == 500
            assert b"got a NaN" in body
            wire.infer(request_of(1))
        with HttpClient(server.http_address) as client:
            text = client.metrics()
    labels = 'model="m",protocol="http",reason="model",version="1"'
    assert f"proa_serve_request_failures_total{{{labels}}} 3.0" in text


def test_a_replaced_model_answers_the_next_request(serve, tmp_path, calls):
    folder = tmp_path / "models" / "m"
    small_models.write_linear(folder / "1" / "model.linear")
    with (
        serve(
            repository=tmp_path / "models", model_control=True, engine="native"
        ) as it,
        HttpClient(it.http_address) as client,
        Wire(it.http_address) as wire,
    ):
        wire.warm(request_of(1))
        small_models.write_linear(folder / "2" / "model.linear", scale=2.0)
        client.load_model("m")
        for _ in range(WARM):
            found = wire.infer(request_of(1))
            y = 2 * small_models.linear(np.ones((1, 4), np.float32))
            np.testing.assert_allclose(found["y"], y, rtol=1e-5)
            assert found.version == "2"


def test_inputs_that_are_not_aligned_are_copied(serve, tmp_path, calls):
    register_backend("mixed", MixedBackend)
    path = tmp_path / "m.mixed"
    path.touch()
    with (
        serve({"m": path}, engine="native") as server,
        Wire(server.http_address) as wire,
    ):
        for value in range(WARM):
            raw, x = np.arange(3, dtype=np.uint8), np.array([value, 0.5])
            found = wire.infer(packed({"raw": raw, "x": x}))
            np.testing.assert_array_equal(found["total"], x + 3)
        assert len(calls) < WARM


def test_a_client_that_does_not_read_is_charged_and_closed(serve, tmp_path, calls):
    register_backend("mixed", MixedBackend)
    path = tmp_path / "m.mixed"
    path.touch()
    data = packed({"raw": np.zeros(3, np.uint8), "x": np.zeros(2)})
    with (
        serve({"m": path}, engine="native", timeout_s=1.0) as server,
        Wire(server.http_address) as wire,
        HttpClient(server.http_address) as client,
    ):
        wire.warm(data)
        wire.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):  # while answers of a MiB are not read
            for _ in range(10_000):
                wire.send(data * 10)

        def held():
            text = client.metrics()
            line = text.partition("\nproa_serve_in_flight_bytes ")[2].partition("\n")[0]
            return float(line)

        assert held() > 2**16
        wire.socket.settimeout(20)
        end = time.monotonic() + 20
        while held() and time.monotonic() < end:
            time.sleep(0.1)
        assert held() == 0
        client.live()


def test_answers_that_were_waiting_arrive_when_the_client_reads(serve, tmp_path, calls):
    register_backend("mixed", MixedBackend)
    path = tmp_path / "m.mixed"
    path.touch()
    data = packed({"raw": np.zeros(3, np.uint8), "x": np.zeros(2)})
    with (
        serve({"m": path}, engine="native") as server,
        Wire(server.http_address) as wire,
    ):
        wire.warm(data)
        wire.send(data * 40)
        time.sleep(0.2)
        for _ in range(40):
            status, _, body = wire.answer()
            assert (status, body[-(2**20) :]) == (200, bytes(2**20))
        wire.infer(data)


def test_a_connection_that_repeated_requests_times_out_idle(serve, model, calls):
    with (
        serve(model, engine="native", idle_timeout_s=0.6) as server,
        Wire(server.http_address) as wire,
    ):
        wire.warm(request_of(1))
        begin = time.monotonic()
        while time.monotonic() < begin + 1.5:  # longer than the time-out
            wire.infer(request_of(2))
            time.sleep(0.05)
        last = time.monotonic()
        assert wire.socket.recv(1) == b""
        assert 0.3 < time.monotonic() - last < 10


def test_the_last_answer_of_a_stopping_server_says_so(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        wire.warm(request_of(1))
        loop = server._loop
        asyncio.run_coroutine_threadsafe(_drain(server), loop).result()
        wire.send(request_of(1))
        status, headers, _ = wire.answer()
        assert status == 503
        assert headers["connection"] == "close"
        assert wire.socket.recv(1) == b""


async def _drain(server):
    server._server._service.drain()
    for front in server._server._fronts.by_protocol["http"]:
        front.drain()


@pytest.mark.fuzz
def test_mutated_repeats_are_answered_as_by_the_other_engine(serve, model, calls):
    rng = random.Random(18)
    plain = bytearray(traced(request_of(1.5), 1))
    with serve(model, engine="native") as one, serve(model, engine="python") as other:
        for server in (one, other):
            with Wire(server.http_address) as wire:
                wire.warm(bytes(plain))
        for _ in range(300):
            data = bytearray(plain)
            for _ in range(rng.choice((1, 1, 2, 5))):
                if rng.random() < 0.2:
                    del data[rng.randrange(len(data))]
                else:
                    data[rng.randrange(len(data))] = rng.choice(BYTES)
            found = [_outcome(server, plain, data) for server in (one, other)]
            assert found[0] == found[1], bytes(data)


def _outcome(server, plain, data):
    """All that comes for a good request and ``data`` after it."""
    with Wire(server.http_address) as wire:
        for _ in range(2):  # The second may be answered natively.
            wire.infer(bytes(plain))
        wire.send(bytes(data))
        wire.socket.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while part := wire.socket.recv(2**16):
                found += part
        except ConnectionResetError:
            pass
        return found


def test_requests_that_all_differ_are_not_remembered(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        for rows in range(1, 200):
            data = request_of(1, rows)
            for _ in range(2):
                wire.infer(data)
        assert len(calls) > 100


def traced(data, at):
    """A request with headers that differ each time, as a proxy adds them."""
    lines = f"Traceparent: 00-{at:032x}-{at:016x}-01\r\nX-Request-Id: {at}\r\n"
    if at % 3 == 0:
        lines += "X-B3-Sampled: 1\r\n"
    return data.replace(b"Host: x\r\n", b"Host: x\r\n" + lines.encode())


def test_heads_that_change_are_not_parsed_again(serve, model, calls, monkeypatch):
    parsed = []
    parse = HttpConnection._parse
    monkeypatch.setattr(
        HttpConnection, "_parse", lambda *given: parsed.append(1) or parse(*given)
    )
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        for at in range(WARM):
            wire.infer(traced(request_of(0), at))
        calls.clear(), parsed.clear()
        for at in range(100):
            found = wire.infer(traced(request_of(at), 2**40 + at))
            x = np.full((1, 4), at, np.float32)
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)
        assert (calls, parsed) == ([], [])


def test_ids_that_change_are_answered_as_they_were_sent(serve, model, calls):
    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        for at in range(WARM):
            wire.infer(packed({"x": np.ones((1, 4), np.float32)}, id=f"{at:08x}"))
        calls.clear()
        for at in range(1000, 1100):
            x = np.full((1, 4), at, np.float32)
            found = wire.infer(packed({"x": x}, id=f"{at:08x}"))
            assert found.id == f"{at:08x}"
            np.testing.assert_allclose(found["y"], small_models.linear(x), rtol=1e-5)
        assert calls == []
        for odd in ('a"b', "a\\b", "\u00e4", "", "x" * 300, '","id":"b', "\x00" * 8):
            for _ in range(4):
                x = np.ones((1, 4), np.float32)
                assert wire.infer(packed({"x": x}, id=odd)).id == odd


def test_an_id_within_a_parameter_is_not_the_requests(serve, model, calls):
    def request(inner, outer):
        x = np.ones((1, 4), np.float32)
        parameters = {"id": inner} if inner else {}
        return packed({"x": x}, id=outer, parameters=parameters)

    with serve(model, engine="native") as server, Wire(server.http_address) as wire:
        for at in range(WARM):
            assert wire.infer(request(f"p{at:03}", "")).id == ""
            assert wire.infer(request(f"p{at:03}", f"q{at:03}")).id == f"q{at:03}"
            assert wire.infer(request(f"p{at:03}", f"p{at:03}")).id == f"p{at:03}"


@pytest.mark.parametrize("transport", ["native", "python"], indirect=True)
def test_large_requests_are_answered_whatever_follows(serve, tmp_path, calls):
    register_backend("mixed", MixedBackend)
    path = tmp_path / "m.mixed"
    path.touch()
    raw = np.arange(3, dtype=np.uint8)
    x = np.random.default_rng(0).normal(size=40_000)
    large = packed({"raw": raw, "x": x})
    small = packed({"raw": raw, "x": x[:2]})
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with serve({"m": path}) as server, Wire(server.http_address) as wire:
        for at in range(WARM):
            for data in (traced(large, at), large):
                np.testing.assert_array_equal(wire.infer(data)["total"], x + 3)
        wire.send(large + small + live + large + traced(small, 1) + small)
        for wanted in (x, x[:2], None, x, x[:2], x[:2]):
            status, headers, body = wire.answer()
            assert status == 200
            if wanted is None:
                assert body == b'{"live":true}'
                continue
            found = decode_response(body, headers[HEADER_LENGTH.lower()])
            np.testing.assert_array_equal(found["total"], wanted + 3)
        begin = len(large) // 2
        wire.send(large[:begin])
        time.sleep(0.05)
        np.testing.assert_array_equal(wire.infer(large[begin:])["total"], x + 3)
        closing = large.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n")
        wire.send(closing)
        status, headers, _ = wire.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert wire.socket.recv(1) == b""


def test_a_large_request_that_stops_half_way_is_timed_out(serve, tmp_path, calls):
    register_backend("mixed", MixedBackend)
    path = tmp_path / "m.mixed"
    path.touch()
    large = packed({"raw": np.zeros(3, np.uint8), "x": np.zeros(40_000)})
    with (
        serve({"m": path}, engine="native", timeout_s=0.5) as server,
        HttpClient(server.http_address) as client,
    ):
        with Wire(server.http_address) as wire:
            wire.warm(large)
            wire.send(large[:200_000])
            status, headers, _ = wire.answer()
            assert (status, headers["connection"]) == (408, "close")
        with Wire(server.http_address) as wire:
            wire.warm(large)
            wire.send(large[:200_000])
        end = time.monotonic() + 10
        while "proa_serve_in_flight_bytes 0.0" not in client.metrics():
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    "given",
    [
        (b"abc", ((0, 4),), 0, (), print),
        (b"abc", ((2, 1),), 0, (), print),
        (b"abc", ((-1, 1),), 0, (), print),
        (b"abc", (), 0, (), print),
        (b"abc", ((0, 1),), 4, (), print),
        (b"abc", ((0, 1),), -1, (), print),
        (b"abcdef", ((0, 1),), 1, (3,), print),
        (b"abcdef", ((0, 1),), 1, (-1,), print),
    ],
)
def test_a_request_with_places_outside_of_it_is_refused(given):
    loop = asyncio.new_event_loop()
    here, there = socket.socketpair()
    with here, there:
        engine = native_module.Engine(loop.call_soon, print, 1024)
        transport = engine.connect(here, asyncio.BufferedProtocol())
        with pytest.raises(ValueError, match="expected ranges and places within"):
            transport.learn(*given)
        engine.close()
    loop.close()


def test_an_exception_of_a_protocol_ends_its_connection_alone():
    class Failing(asyncio.BufferedProtocol):
        lost = None

        def get_buffer(self, size_hint):
            return engine.buffer

        def buffer_updated(self, count):
            raise RuntimeError("of the test")

        def connection_lost(self, error):
            self.lost = (error,)

    loop = asyncio.new_event_loop()
    errors = []
    here, there = socket.socketpair()
    with there:
        here.setblocking(False)
        engine = native_module.Engine(loop.call_soon, errors.append, 1024)
        protocol = Failing()
        engine.connect(here, protocol)
        there.sendall(b"x")
        engine.poll()
        loop.run_until_complete(asyncio.sleep(0))
        assert [str(error) for error in errors] == ["of the test"]
        assert protocol.lost == (None,)
        assert there.recv(1) == b""
        engine.close()
    loop.close()


def test_an_engine_needs_memory_to_receive_into():
    with pytest.raises(ValueError, match="expected a buffer of 1 byte or more, got 0"):
        native_module.Engine(print, print, 0)


def test_a_wanted_engine_that_was_not_built_is_an_error(model, monkeypatch):
    monkeypatch.setattr(native, "_built", lambda: None)
    sources = tuple(native_source(model))
    config = ServerConfig(models=sources, http_port=0, engine="native")
    with pytest.raises(InvalidRequestError, match="engine native must be built"):
        BackgroundServer(config).__enter__()
    config = ServerConfig(models=sources, http_port=0)
    with BackgroundServer(config) as server, HttpClient(server.http_address) as client:
        assert client.live()


def native_source(model):
    from proa_serving.config import ModelSource

    return [ModelSource(name, path) for name, path in model.items()]


def test_an_unknown_engine_is_refused(model):
    with pytest.raises(InvalidRequestError, match="engine must be one of auto, native"):
        ServerConfig(models=tuple(native_source(model)), engine="rust")
