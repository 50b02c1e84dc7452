"""Clients that idle, drip, flood or leave: the others are served, memory is bounded."""

import contextlib
import itertools
import json
import logging
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.config import ServerConfig
from proa_serving.http import connection, repeats
from proa_serving.http.heads import KnownHeads
from proa_serving.http.messages import Request
from proa_serving.protocol.errors import (
    HeadTooLargeError,
    QueueFullError,
    ServingError,
    SlowRequestError,
    error_from_status,
)
from proa_serving.transport.listener import Connections
from proa_serving.transport.phases import IDLE

INFER = "/v2/models/m/infer"
GOOD = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}]}
).encode()
HEAD = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
X = np.ones((1, 4), np.float32)
# 69 KB of small ones, in one read.
MANY_HEADERS = b"GET /v2 HTTP/1.1\r\nHost: x\r\n%s\r\n" % b"".join(
    b"%04x: b\r\n" % at for at in range(7700)
)
GZIPPED = (
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
)


@pytest.fixture(autouse=True, params=["uvloop", "asyncio"])
def loop(request, monkeypatch):
    """Every test, on either event loop."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)


@pytest.fixture
def model(tmp_path):
    return {"m": small_models.write_linear(tmp_path / "m.linear")}


def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def read_all(held):
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := held.recv(65536):
            found += part
    return found


def read_answer(held):
    """Status, headers and body of one answer."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += held.recv(1) or b"\r\n\r\n"
    first, *lines = head.decode().strip().split("\r\n")
    headers = dict(line.split(": ") for line in lines)
    size, body = int(headers["content-length"]), b""
    while len(body) < size:
        part = held.recv(size - len(body))
        assert part
        body += part
    return int(first.split()[1]), headers, body


def live(address):
    with connect(address) as held:
        held.sendall(LIVE)
        return read_answer(held)[0]


def test_idle_connections_do_not_lock_clients_out(serve, model):
    with serve(model, max_connections=20) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server.http_address)) for _ in range(60)]
        assert live(server.http_address) == 200
        with HttpClient(server.http_address) as client:
            assert client.infer("m", {"x": X})["y"].shape == (1, 3)
        assert read_all(idle[0]) == b""  # the oldest made room


def test_health_checks_are_answered_where_every_connection_is_busy(serve, model):
    with serve(model, max_connections=5) as server, contextlib.ExitStack() as stack:
        for _ in range(5):
            held = stack.enter_context(connect(server.http_address))
            held.sendall(HEAD + b"9\r\n\r\n{")
        time.sleep(0.2)
        for _ in range(30):  # also those that never send
            stack.enter_context(connect(server.http_address))
        assert live(server.http_address) == 200
        with connect(server.http_address) as held:
            held.sendall(HEAD + b"2\r\n\r\n{}")
            status, headers, body = read_answer(held)
            assert status == 503
            assert headers["connection"] == "close"
            assert "as many connections as it may" in json.loads(body)["error"]


def test_slow_clients_are_closed(serve, model):
    options = {"head_timeout_s": 0.3, "idle_timeout_s": 0.6, "timeout_s": 0.4}
    with serve(model, **options) as server, contextlib.ExitStack() as stack:
        silent, head, body, idle = (
            stack.enter_context(connect(server.http_address)) for _ in range(4)
        )
        head.sendall(b"GET /v2 HTTP/1.1\r\nHo")
        body.sendall(HEAD + b"99\r\n\r\n{")
        idle.sendall(LIVE)
        began = time.monotonic()
        assert read_all(silent) == b""
        assert 0.2 < time.monotonic() - began < 2
        for held, part in ((head, "head"), (body, "body")):
            status, headers, text = read_answer(held)
            assert status == 408
            assert headers["connection"] == "close"
            assert f"{part} must arrive within" in json.loads(text)["error"]
            assert read_all(held) == b""  # and it is closed
        assert read_answer(idle)[0] == 200
        assert read_all(idle) == b""
        assert 0.5 < time.monotonic() - began < 5


def test_a_head_that_drips_is_not_waited_for(serve, model):
    with (
        serve(model, head_timeout_s=0.4) as server,
        connect(server.http_address) as held,
    ):
        began = time.monotonic()
        for letter in b"GET /v2 HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200:
            held.sendall(bytes([letter]))
            if select.select([held], [], [], 0.02)[0]:
                break
        assert 0.3 < time.monotonic() - began < 2
        assert read_answer(held)[0] == 408


def test_all_file_descriptors_in_use(tmp_path):
    """The accept loop neither spins nor floods the log, and recovers."""
    model = small_models.write_linear(tmp_path / "m.linear")
    program = Path(small_models.__file__)
    limit = (200, 200)
    with (
        subprocess.Popen(
            [sys.executable, str(program), str(model), "--http", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        ) as process,
        contextlib.ExitStack() as ended,
    ):
        ended.callback(process.kill)
        address = process.stdout.readline().split("http=")[1].split()[0]
        # Lower than what the server counted on, as if others had opened files.
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (40, 200))
        with contextlib.ExitStack() as stack:
            for _ in range(150):
                stack.enter_context(connect(address))
            before = cpu_seconds(process.pid)
            time.sleep(1)
            assert cpu_seconds(process.pid) - before < 0.5
        time.sleep(0.5)
        assert live(address) == 200
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=30)[1]
        assert process.returncode == 0
    assert "at most 128 connections, not 1024" in log
    assert log.count("cannot accept connections") == 1
    assert len(log) < 5000


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_requests_in_flight_share_one_budget(serve, tmp_path, kind):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.5)
    mib = 2**20
    options = {"max_request_bytes": 2 * mib, "max_in_flight_bytes": 3 * mib}
    with serve({"m": model}, **options) as server:
        rows = np.zeros((2 * mib // 16 - 100, 4), np.float32)
        found = []

        address = {HttpClient: server.http_address, GrpcClient: server.grpc_address}

        def infer_once():
            with kind(address[kind]) as client:
                try:
                    found.append(client.infer("m", {"x": rows})["y"].shape[0])
                except QueueFullError as error:
                    assert "may hold 3145728 bytes" in str(error)
                    found.append(429)

        threads = [threading.Thread(target=infer_once) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(found) == [429, 429, 429, len(rows)]
        infer_once()  # what was held is released
        assert found[-1] == len(rows)


def test_a_length_that_is_only_promised_reserves_nothing(serve, model):
    options = {"max_request_bytes": 2**20, "max_in_flight_bytes": 2**20}
    with serve(model, **options) as server, contextlib.ExitStack() as stack:
        for _ in range(5):
            held = stack.enter_context(connect(server.http_address))
            held.sendall(HEAD + b"1000000\r\n\r\n{")
        with HttpClient(server.http_address) as client:
            assert client.infer("m", {"x": X})["y"].shape == (1, 3)


def test_a_client_that_leaves_stops_waiting_and_reserves_nothing(
    serve, tmp_path, caplog
):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.3)
    options = {"max_request_bytes": 2**20, "max_in_flight_bytes": 2**20}
    caplog.set_level(logging.WARNING)
    with serve({"m": model}, **options) as server:
        size = str(len(GOOD)).encode()
        for _ in range(10):
            with connect(server.http_address) as held:
                held.sendall(HEAD + size + b"\r\n\r\n" + GOOD)
                time.sleep(0.02)
        with connect(server.http_address) as held:
            held.sendall(HEAD + b"900000\r\n\r\n" + bytes(800000))
            time.sleep(0.1)
        rows = np.zeros((2**20 // 16 - 100, 4), np.float32)
        with HttpClient(server.http_address) as client:
            assert client.infer("m", {"x": rows})["y"].shape == (len(rows), 3)
            held = client.metrics()
        assert 'failures_total{model="m",protocol="http",reason="cancelled"' in held
        assert 'in_flight{model="m",version="1"} 0.0' in held
    assert not caplog.records


def test_the_client_raises_what_the_connection_is_refused_for(serve, model):
    for status, kind in ((408, SlowRequestError), (431, HeadTooLargeError)):
        assert type(error_from_status(status, "")) is kind
    with (
        serve(model) as server,
        HttpClient(server.http_address) as client,
        pytest.raises(HeadTooLargeError, match="head must be at most"),
    ):
        client.infer("m" * 2**17, {"x": X})


def test_pipelined_requests_are_answered_in_order(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.05)
    with serve({"m": model}) as server, connect(server.http_address) as held:
        size = str(len(GOOD)).encode()
        infer = HEAD + size + b"\r\n\r\n" + GOOD
        meta = b"GET /v2/models/m HTTP/1.1\r\nHost: x\r\n\r\n"
        last = LIVE.replace(b"Host", b"Connection: close\r\nHost")
        held.sendall((infer + meta + LIVE) * 20 + last)
        found = read_all(held)
    kinds = [part.partition(b"\r\n\r\n")[2][:9] for part in found.split(b"HTTP/1.1 ")]
    want = [b'{"model_n', b'{"name":"', b'{"live":t'] * 20
    assert kinds == [b"", *want, b'{"live":t']


@pytest.mark.parametrize("sleep", [0.0, 0.05])
def test_pipelined_requests_are_answered_before_what_follows_is_refused(
    serve, tmp_path, sleep
):
    path = small_models.write_linear(tmp_path / "m.linear", sleep=sleep)
    good = HEAD + b"%d\r\n\r\n" % len(GOOD) + GOOD
    with serve({"m": path}) as server, connect(server.http_address) as held:
        held.sendall(good * 3 + b"GET / HTTP/9.9\r\n\r\n" + good)
        for _ in range(3):
            status, headers, _ = read_answer(held)
            assert (status, headers.get("connection")) == (200, None)
        status, headers, body = read_answer(held)
        assert (status, headers["connection"]) == (400, "close")
        assert b"must be HTTP/1.1" in body
        assert read_all(held) == b""


def test_large_bodies_in_small_and_pipelined_parts(serve, model):
    """A body that is received in place is followed by the next request."""
    x = np.random.default_rng(5).normal(size=(20_000, 4)).astype(np.float32)
    head = {"name": "x", "datatype": "FP32", "shape": x.shape}
    head["parameters"] = {"binary_data_size": x.nbytes}
    wanted = [{"name": "y", "parameters": {"binary_data": True}}]
    for pad in (0, 3):  # the raw bytes at any address
        text = json.dumps({"inputs": [head], "outputs": wanted}) + " " * pad
        body = text.encode() + x.tobytes()
        sizes = f"{len(body)}\r\nInference-Header-Content-Length: {len(text)}"
        data = HEAD + sizes.encode() + b"\r\n\r\n" + body
        with serve(model) as server, connect(server.http_address) as held:
            held.sendall(data[:100])
            time.sleep(0.02)
            held.sendall(data[100:200_000])
            time.sleep(0.02)
            held.sendall(data[200_000:] + data + LIVE)
            for _ in range(2):
                status, headers, found = read_answer(held)
                assert status == 200
                skip = int(headers["inference-header-content-length"])
                y = np.frombuffer(found[skip:], np.float32).reshape(-1, 3)
                np.testing.assert_allclose(
                    y, small_models.linear(x), rtol=1e-4, atol=1e-5
                )
            assert read_answer(held)[0] == 200


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"\x16\x03\x01\x00\xff\r\n\r\n", 400, "must be HTTP/1.1"),
        (b"GET /v2 HTTP/9.1\r\nHost: x\r\n\r\n", 400, "must be HTTP/1.1"),
        (b"GET /v2 HTTP/1.1\r\nBad Header\r\n\r\n", 400, "must be HTTP/1.1"),
        (b"GET /v2 HTTP/1.1\r\n\r\n", 400, "must have a Host"),
        (b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "one Host, got two"),
        (HEAD + b"2\r\nContent-Length: 3\r\n\r\n{}", 400, "must be HTTP/1.1"),
        (HEAD + b"2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400, "must be HTTP/1.1"),
        (HEAD + b"-1\r\n\r\n", 400, "must be HTTP/1.1"),
        (HEAD + b"99999999999999999999999\r\n\r\n", 400, "must be HTTP/1.1"),
        (HEAD + b"99999999\r\n\r\n", 413, "body must be at most 1048576 bytes"),
        (b"GET /" + b"a" * 2**17 + b" HTTP/1.1\r\n\r\n", 431, "head must be at most"),
        (MANY_HEADERS, 431, "head must be at most"),
        (GZIPPED, 400, "Transfer-Encoding must be chunked, got b'gzip, chunked'"),
        (b"GET /%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n", 404, "expected a path"),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, "expected a path"),
    ],
)
def test_errors_below_the_protocol_are_json(serve, model, data, status, message):
    with serve(model, max_request_bytes=2**20) as server:
        with connect(server.http_address) as held:
            held.sendall(data)
            found, headers, body = read_answer(held)
            assert found == status
            assert headers["content-type"] == "application/json"
            assert message in json.loads(body)["error"]
            if status != 404:
                assert headers["connection"] == "close"
                assert read_all(held) == b""
        assert live(server.http_address) == 200


def test_http_1_0_needs_no_host(serve, model):
    with serve(model) as server, connect(server.http_address) as held:
        held.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert read_all(held).endswith(b'{"live":true}')


def test_head_expect_and_query(serve, model):
    with serve(model) as server, connect(server.http_address) as held:
        held.sendall(LIVE.replace(b"GET", b"HEAD"))
        found = held.recv(4096)
        assert b"content-length: 13" in found
        assert found.endswith(b"\r\n\r\n")
        held.sendall(HEAD + b"%d\r\nExpect: 100-continue\r\n\r\n" % len(GOOD))
        assert held.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        held.sendall(GOOD)
        assert read_answer(held)[0] == 200
        held.sendall(b"GET http://h/v2/models/%6d?a=b HTTP/1.1\r\nHost: x\r\n\r\n")
        assert json.loads(read_answer(held)[2])["name"] == "m"


def large_request(rows):
    x = np.zeros((rows, 4), np.float32)
    head = {"name": "x", "datatype": "FP32", "shape": x.shape}
    head["parameters"] = {"binary_data_size": x.nbytes}
    text = json.dumps({"inputs": [head], "parameters": {"binary_data_output": True}})
    sizes = f"{len(text) + x.nbytes}\r\nInference-Header-Content-Length: {len(text)}"
    return HEAD + sizes.encode() + b"\r\n\r\n" + text.encode() + x.tobytes()


@pytest.mark.parametrize(("size", "status"), [(1, 400), (8, 400), (64, 200)])
def test_many_chunks_must_not_be_small(serve, model, size, status):
    """Each takes more work and memory than its bytes, which the budget counts."""
    body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": '
    body += b"[1, 2, 3, 4]}]" + b" " * 6000 * size + b"}"
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    sent = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in chunks)
    with serve(model) as server, connect(server.http_address) as held:
        held.sendall(
            b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + sent + b"0\r\n\r\n"
        )
        assert read_answer(held)[0] == status


@pytest.mark.parametrize("last", [False, True])
def test_a_client_that_reads_slowly_gets_all_of_its_answer(serve, tmp_path, last):
    model = small_models.write_linear(tmp_path / "m.linear")
    data = large_request(400_000)
    if last:
        data = data.replace(b"Host", b"Connection: close\r\nHost", 1)
    with (
        serve({"m": model}, timeout_s=1.0) as server,
        connect(server.http_address) as held,
    ):
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        held.sendall(data + (b"" if last else LIVE))
        found = b""
        while len(found) < 400_000 * 20:
            part = held.recv(100_000)
            assert part, f"closed after {len(found)} bytes"
            found += part
            time.sleep(0.02)  # longer than the time-out, in all
        assert found.startswith(b"HTTP/1.1 200")
        if not last:
            while not found.endswith(b'{"live":true}'):
                found += held.recv(2**20)


def test_a_client_that_does_not_read_is_closed(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    data = large_request(200_000)
    with (
        serve({"m": model}, timeout_s=1.0) as server,
        connect(server.http_address) as held,
    ):
        held.settimeout(5)
        with pytest.raises(OSError, match=r"reset|Broken"):
            for _ in range(40):
                held.sendall(data)


HEADS = [
    (b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    (HEAD + b"%d\r\n\r\n" % len(GOOD), GOOD),
    (HEAD + b"2\r\n\r\n", b"[]"),
    (HEAD + b"0\r\n\r\n", b""),
    (HEAD + b"%d\r\nX-A: %s\r\n\r\n" % (len(GOOD), b"a" * 3000), GOOD),
    (b"HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    (b"POST /v2/models/m HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", b"abc"),
    (
        b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
        b"\r\n\r\n",
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD),
    ),
    (b"GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b""),
    (b"\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", b""),
]


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3))
def test_heads_that_were_seen_before_mean_the_same(serve, model, seed, monkeypatch):
    """A connection that repeats heads gets the answers of one that does not."""
    rng = random.Random(seed)
    taken = set()  # by the native transport, of which the cache does not hear
    headers_of = repeats._headers_of
    monkeypatch.setattr(
        repeats, "_headers_of", lambda head: taken.add(head) or headers_of(head)
    )
    known = connection.known_heads
    end = LIVE.replace(b"Host", b"Connection: close\r\nHost")
    seen = 0
    with serve(model) as server:
        for _ in range(25):
            parts = [head + body for head, body in rng.choices(HEADS, k=5)] + [end]
            whole, size = b"".join(parts), rng.randrange(20, 400)
            divided = [whole[at : at + size] for at in range(0, len(whole), size)]
            answers = []
            for sent in (divided, parts, parts, [whole]):
                if sent is divided:
                    known._heads.clear()
                with connect(server.http_address) as held:
                    for part in sent:
                        with contextlib.suppress(OSError):
                            held.sendall(part)
                        time.sleep(0.002 if sent is parts else 0)
                    answers.append(read_all(held))
                seen = max(seen, len(known._heads.keys() | taken))
            assert answers == answers[:1] * 4
    assert 3 < seen <= 256


@pytest.mark.parametrize("bare", [b"\n", b"\r"])
def test_lines_that_end_otherwise_are_not_remembered(bare):
    """What one parser takes for two requests must not become one."""
    head = b"GET /a HTTP/1.1" + bare + b"Host: x" + bare * 2
    known = KnownHeads()
    found, _ = known.find(head + b"POST /b HTTP/1.1\r\nHost: y\r\n\r\n")
    assert found == b"" or bare == b"\r"
    assert known.find(b"GET / HTTP/1.1\r\nHost: x\r\n") == (b"", None)
    assert known.find(b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n") == (b"", None)


def test_remembered_heads_are_bounded():
    known = KnownHeads()
    for at in range(1000):
        request = Request()
        known.add(b"GET /%d HTTP/1.1\r\n\r\n" % at, request)
        assert len(known._heads) <= 256


def test_connections_are_counted_over_all_protocols(serve, model):
    """Idle connections of one make room for those of another, and busy ones do not."""
    slow = small_models.write_linear(model["m"].parent / "slow.linear", sleep=6.0)
    body = GOOD
    head = b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d"
    with (
        serve({**model, "slow": slow}, max_connections=4, instances=4) as server,
        contextlib.ExitStack() as stack,
    ):
        host, port = server.grpc_address.split(":")
        idle = [
            stack.enter_context(socket.create_connection((host, int(port))))
            for _ in range(4)
        ]
        time.sleep(0.5)  # until they are accepted
        held = [stack.enter_context(connect(server.http_address)) for _ in range(4)]
        for each in held:
            each.sendall(head % len(body) + b"\r\n\r\n" + body)
        for each in idle:
            each.settimeout(10)
            assert each.recv(1) == b""
        with GrpcClient(server.grpc_address) as client:
            assert client.live()
            with pytest.raises(ServingError):
                client.infer("m", {"x": np.ones((1, 4), np.float32)})
        for each in held:
            each.settimeout(30)
            assert each.recv(12) == b"HTTP/1.1 200"


class IdleConnection:
    """What a listener sees of a connection that idles until ``deadline``."""

    phase = IDLE
    health_only = False

    def __init__(self, held: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = held, deadline

    def close(self) -> None:
        self.sock.close()


def test_a_connection_whose_request_waits_to_be_read_does_not_make_room():
    """Its client would be reset, and not know whether it was served."""
    with contextlib.ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(3)]
        for each in itertools.chain(*pairs):
            stack.callback(each.close)
        held = [IdleConnection(pair[0], 1.0 + at) for at, pair in enumerate(pairs)]
        config = ServerConfig(repository=Path("models"), max_connections=3)
        shared = Connections(config)
        shared.held.update(held)
        pairs[0][1].sendall(b"GET / HTTP/1.1\r\n")
        assert shared.make_room()
        assert [each.sock.fileno() >= 0 for each in held] == [True, False, True]
        shared.held.discard(held[1])
        assert not shared.is_full()
        pairs[2][1].sendall(b"G")
        assert not shared.make_room()
