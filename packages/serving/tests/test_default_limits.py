"""What a server with its default limits bears: memory, connections, deep JSON."""

import contextlib
import http.client
import json
import resource
import socket
import subprocess
import threading
import time
from collections import Counter

import numpy as np
import pytest
import small_models
from server_process import Process

from proa_serving.client import HttpClient

MIB = 2**20
X = np.ones((1, 4), np.float32)
HEAD = (
    "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
    "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n"
)


@pytest.fixture
def start(tmp_path):
    """Starts a server of one model, with at most ``files`` open files."""

    def make(*options, files=1024, sleep=0.0):
        model = small_models.write_linear(tmp_path / "m.linear", sleep=sleep)
        limited = ["prlimit", f"--nofile={files}", "--"]
        return Process(model, "--http", 0, "--grpc", 0, *options, prefix=limited)

    if subprocess.run(["prlimit", "--version"], capture_output=True).returncode:
        pytest.skip("needs prlimit, of util-linux")
    return make


def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@contextlib.contextmanager
def probed(address):
    """How long health checks wait for their answer, in the meantime."""
    waits, ended = [0.0], threading.Event()

    def probe():
        while not ended.is_set():
            began = time.monotonic()
            held = http.client.HTTPConnection(address, timeout=60)
            held.request("GET", "/v2/health/live")
            assert held.getresponse().status == 200
            held.close()
            waits.append(time.monotonic() - began)
            ended.wait(0.02)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join(60)


def served(process):
    with HttpClient(process.http, timeout=30) as client:
        y = client.infer("m", {"x": X})["y"]
    np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_idle_connections_beyond_the_open_files_lock_nobody_out(start, protocol):
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    if own[1] < 2000:
        pytest.skip("needs 2000 open files of its own")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(own[0], 2000), own[1]))
    try:
        with start() as process, contextlib.ExitStack() as stack:
            address = getattr(process, protocol)
            for _ in range(1030):
                stack.enter_context(connect(address))
            with probed(process.http) as waits:
                for _ in range(20):
                    served(process)
            assert np.percentile(waits, 90) < 5
            process.held.terminate()
            assert process.end() == 0
            assert "cannot accept" not in process.stderr
            assert len(process.stderr) < 5000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, own)


def test_thirty_bodies_of_59_mib_are_not_all_held_at_one_time(start):
    rows = 59 * MIB // 16
    text = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "FP32",
                    "shape": [rows, 4],
                    "parameters": {"binary_data_size": rows * 16},
                }
            ]
        }
    )
    head = (HEAD.format(len(text), len(text) + rows * 16) + text).encode()
    found, chunk = Counter(), bytes(MIB)
    arrived, goes_on = threading.Barrier(31), threading.Event()

    def send(address):
        with connect(address) as held:
            held.settimeout(300)
            with contextlib.suppress(OSError):  # It may be refused meanwhile.
                held.sendall(head)
                for _ in range(58):
                    held.sendall(chunk)
            arrived.wait(300)
            held.setblocking(False)
            try:
                found[held.recv(12)[9:]] += 1
            except BlockingIOError:  # The rest of it is waited for.
                found["held"] += 1
            goes_on.wait(300)  # so that all that is accepted is held at one time

    # A slow machine may need longer than the 30 s that a body has.
    with start("--timeout", 300) as process:
        served(process)
        before = process.status("VmRSS")
        clients = [
            threading.Thread(target=send, args=(process.http,)) for _ in range(30)
        ]
        with probed(process.http) as waits:
            for client in clients:
                client.start()
            arrived.wait(300)
            largest = process.status("VmHWM")
            served(process)
            goes_on.set()
            for client in clients:
                client.join(300)
        served(process)
    assert np.percentile(waits, 90) < 5
    assert found == {"held": 8, b"429": 22}
    assert 8 * 58 * 1024 < largest - before < (512 + 64) * 1024


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ('{"inputs":[' + "{}," * (20 * MIB) + "{}]}", 413, "JSON must be at most"),
        ('{"inputs":[' + "{}," * (5 * MIB) + "{}]}", 400, "at most 4096 objects"),
        ("[" * (15 * MIB), 400, "at most 64 deep"),
        ('{"a":' * (2 * MIB) + "1" + "}" * MIB, 400, "at most 64 deep"),
    ],
    ids=["60 MiB of objects", "15 MiB of objects", "deep lists", "deep objects"],
)
def test_json_that_costs_is_refused_and_blocks_nobody(start, body, status, error):
    with start() as process:
        served(process)
        before = process.status("VmHWM")
        with probed(process.http) as waits:
            held = http.client.HTTPConnection(process.http, timeout=60)
            held.request("POST", "/v2/models/m/infer", body)
            answer = held.getresponse()
            assert answer.status == status
            assert error in json.load(answer)["error"]
            held.close()
        assert np.percentile(waits, 90) < 5
        # The body, and what it becomes until it is refused.
        assert process.status("VmHWM") - before < 200 * 1024
        served(process)
