"""Known attacks on HTTP/2 and HTTP: health is answered, and memory is bounded."""

import http.client
import subprocess
import sys
import time

import attacks
import numpy as np
import pytest
import small_models
from server_process import Process

from proa_serving.client import GrpcClient, HttpClient

SECONDS = 1.0
X = np.ones((2, 4), np.float32)


def live(address):
    """Seconds until a new connection's health check was answered."""
    began = time.monotonic()
    held = http.client.HTTPConnection(address, timeout=60)
    held.request("GET", "/v2/health/live")
    assert held.getresponse().status == 200
    held.close()
    return time.monotonic() - began


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    model = small_models.write_linear(tmp_path_factory.mktemp("a") / "m.linear")
    limits = ("--max-in-flight-mib", 32, "--max-request-mib", 16, "--max-json-mib", 4)
    times = ("--head-timeout", 2, "--idle-timeout", 2, "--timeout", 5)
    with Process(model, "--http", 0, "--grpc", 0, *limits, *times) as running:
        with HttpClient(running.http) as client:
            client.infer("m", {"x": X})
        yield running


@pytest.mark.parametrize(
    ("protocol", "name", "half_closed"),
    [
        *(("grpc", name, False) for name in attacks.GRPC),
        *(("http", name, False) for name in attacks.HTTP),
        ("grpc", "rapid reset", True),
        ("grpc", "answers are not read", True),
        ("http", "answers are not read", True),
    ],
)
def test_an_attack_neither_stops_health_nor_fills_memory(
    process, protocol, name, half_closed
):
    address = {"grpc": process.grpc, "http": process.http}[protocol]
    before, descriptors = process.status("VmRSS"), process.descriptors()
    command = [sys.executable, attacks.__file__, protocol, name, address, str(SECONDS)]
    times, largest = [], before
    with subprocess.Popen(command + ["half-closed"] * half_closed) as attackers:
        while attackers.poll() is None:
            times.append(live(process.http))
            largest = max(largest, process.status("VmRSS"))
            time.sleep(0.02)
    assert attackers.returncode == 0
    # Not the longest, as other work may stop all of this for seconds.
    assert np.percentile(times, 90) < 1.0
    # The budget, what 8 connections may have unread, and what malloc keeps.
    assert largest - before < 64 * 1024
    with HttpClient(process.http) as client, GrpcClient(process.grpc) as other:
        for each in (client, other):
            y = each.infer("m", {"x": X})["y"]
            np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
    end = time.monotonic() + 10
    while process.descriptors() > descriptors + 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert process.descriptors() <= descriptors + 2
