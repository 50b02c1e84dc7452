"""Many requests, good and hostile: none lost, none mixed up, nothing kept."""

import contextlib
import resource
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import hostile_http
import hostile_http2
import numpy as np
import pytest
import small_models
from prometheus_client.parser import text_string_to_metric_families
from server_process import Process
from steady_load import SteadyLoad, X

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol import rpc
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.schedule.queue import Limits

COUNT, WORKERS = 10_000, 8


def test_ten_thousand_requests(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, instances=2, limits=Limits(max_batch=8)) as server:

        def infer_once(worker):
            # Half by each protocol; every request has its own numbers.
            output = (HttpClient, server.http_address)
            if worker % 2:
                output = (GrpcClient, server.grpc_address)
            kind, address = output
            with kind(address) as client:
                for at in range(COUNT // WORKERS):
                    x = np.full((1, 4), worker * 10_000 + at, np.float32)
                    result = client.infer("m", {"x": x}, id=str(at))
                    assert result.id == str(at)
                    want = small_models.linear(x)
                    np.testing.assert_allclose(result["y"], want, rtol=1e-5)
            return COUNT // WORKERS

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ThreadPoolExecutor(WORKERS) as pool:
            assert sum(pool.map(infer_once, range(WORKERS))) == COUNT
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert after - before < 100 * 1024  # KiB


HOSTILE = {
    "oversized": b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 99999999999\r\n\r\n",
    "large head": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "smuggled": b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v2 HTTP/1.1\r\n\r\n",
    "truncated": b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 1000\r\n\r\n{",
}


def drip(address, ended):
    """Slow-loris: heads that arrive byte by byte."""
    host, port = address.split(":")
    while not ended.is_set():
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port)), timeout=5) as held,
        ):
            for byte in b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX-Y: zzzzzzz":
                held.sendall(bytes([byte]))
                if ended.wait(0.05):
                    break


def cancel(address, ended):
    """Calls of gRPC that are cancelled, some before they began."""
    message = rpc.encode_request(InferRequest("m", [Tensor.of("x", X)]), True)
    while not ended.is_set():
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(
                "/inference.GRPCInferenceService/ModelInfer",
                request_serializer=pb.ModelInferRequest.SerializeToString,
            )
            for at in range(50):
                held = call.future(message)
                ended.wait(0.0001 * at)
                held.cancel()


def send_bad(address, ended):
    """What must be refused."""
    host, port = address.split(":")
    while not ended.is_set():
        for data in HOSTILE.values():
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), timeout=5) as held,
            ):
                held.sendall(data)
                held.recv(1000)
        ended.wait(0.01)


def again(attack):
    """``attack``, again and again."""

    def run(address, ended):
        seed = 0
        while not ended.is_set():
            attack(address, seed, 20)
            seed += 1

    return run


ATTACKS = {
    "http": (again(hostile_http.attack), drip, send_bad),
    "grpc": (again(hostile_http2.attack), cancel),
}
OPTIONS = ("--head-timeout", 0.5, "--idle-timeout", 1.0, "--timeout", 5)


# A model that counts the tasks of the event loop, itself among them.
TASKS = """
import asyncio

inputs, outputs = [("x", "INT64", (1,))], [("tasks", "INT64", (1,))]


async def run(inputs, infer):
    return {"tasks": [len(asyncio.all_tasks())]}
"""


def tasks(process):
    with HttpClient(process.http) as client:
        return int(client.infer("tasks", {"x": np.zeros(1, np.int64)})["tasks"][0])


def settled(process, seconds=30):
    """Its open files, once those of clients that went are closed."""
    end = time.monotonic() + seconds
    low = process.descriptors()
    while time.monotonic() < end:
        time.sleep(0.25)
        low = min(low, process.descriptors())
    return low


def soak(folder, seconds):
    """Good requests among hostile ones; nothing fails, and nothing is left."""
    small_models.write_linear(folder / "m" / "1" / "model.linear")
    (folder / "tasks" / "1").mkdir(parents=True)
    (folder / "tasks" / "1" / "model.py").write_text(TASKS)
    places = ("--repository", folder, "--python-models", "--http", 0, "--grpc", 0)
    with Process(*places, *OPTIONS, "--instances", 2) as process:
        addresses = {"http": process.http, "grpc": process.grpc}
        makers = [lambda: HttpClient(process.http), lambda: GrpcClient(process.grpc)]
        for make in makers:
            with make() as client:
                client.infer("m", {"x": X})
        before, tasks_before = settled(process, 2), tasks(process)
        ended = threading.Event()
        threads = [
            threading.Thread(target=attack, args=(addresses[protocol], ended))
            for protocol, attacks in ATTACKS.items()
            for attack in attacks
        ]
        loads = [SteadyLoad(make, threads=2) for make in makers]
        with contextlib.ExitStack() as stack:
            for load in loads:
                stack.enter_context(load)
            stack.callback(ended.set)
            for thread in threads:
                thread.start()
            resident = []
            for _ in range(4):
                ended.wait(seconds / 4)
                assert process.held.poll() is None
                resident.append(process.status("VmRSS"))
        for thread in threads:
            thread.join(60)
        assert [load.found.keys() for load in loads] == [{"ok"}] * 2, [
            load.found for load in loads
        ]
        after, tasks_after = settled(process, 4), tasks(process)
        with HttpClient(process.http) as client:
            samples = {
                sample.name: sample.value
                for family in text_string_to_metric_families(client.metrics())
                for sample in family.samples
            }
        process.held.send_signal(signal.SIGTERM)
        assert process.end() == 0
        assert "Traceback" not in process.stderr
    assert after <= before, (before, after)
    assert tasks_after <= tasks_before, (tasks_before, tasks_after)
    assert samples["proa_serve_in_flight"] == 0
    assert samples["proa_serve_in_flight_bytes"] == 0
    return [load.found["ok"] for load in loads], resident


def test_a_minute_of_good_and_hostile_traffic(tmp_path):
    counts, resident = soak(tmp_path, 60)
    assert min(counts) > 100
    assert resident[-1] < 1.2 * resident[0]


@pytest.mark.full
def test_twenty_minutes_of_good_and_hostile_traffic(tmp_path):
    counts, resident = soak(tmp_path, 1200)
    assert min(counts) > 1000
    assert resident[-1] < 1.05 * resident[0]
