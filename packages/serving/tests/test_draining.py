"""What clients see while a server shuts down."""

import http.client
import json
import logging
import socket
import struct
import sys
import threading
import time
from collections import Counter

import grpc
import numpy as np
import pytest
import small_models
from http2_peer import INFER, Peer, data, headers, infer_message, request

from proa_serving.config import GRPC_ENGINES
from proa_serving.http2.frames import GOAWAY
from proa_serving.protocol import rpc
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import InferRequest, Tensor

X = np.ones((1, 4), np.float32)


def infer_call(address):
    channel = grpc.insecure_channel(address)
    call = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=pb.ModelInferRequest.SerializeToString,
        response_deserializer=pb.ModelInferResponse.FromString,
    )
    message = rpc.encode_request(InferRequest("m", [Tensor.of("x", X)]), True)
    return channel, lambda **options: call.future(message, **options)


@pytest.mark.parametrize("engine", GRPC_ENGINES)
def test_grpc_calls_get_ok_or_unavailable_while_the_server_stops(
    serve, tmp_path, engine
):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.003)
    found = Counter()
    ended = threading.Event()

    def work(call):
        while not ended.is_set():
            code = call(timeout=10).code()
            found[code] += 1
            if code != grpc.StatusCode.OK:
                time.sleep(0.002)

    with serve({"m": model}, grpc_engine=engine) as server:
        channel, call = infer_call(server.grpc_address)
        threads = [threading.Thread(target=work, args=(call,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
    time.sleep(0.2)
    ended.set()
    for thread in threads:
        thread.join(20)
    channel.close()
    # grpcio's server itself cancels a call that arrives in the moment it stops.
    cancelled = found.pop(grpc.StatusCode.CANCELLED, 0)
    assert cancelled <= (len(threads) if engine == "grpcio" else 0)
    assert set(found) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}


@pytest.mark.parametrize("engine", GRPC_ENGINES)
@pytest.mark.parametrize("sleep", [0.0, 0.02])
def test_cancelled_grpc_calls_leave_nothing_in_the_log(
    serve, tmp_path, caplog, sleep, engine
):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=sleep)
    caplog.set_level(logging.WARNING)
    with serve({"m": model}, grpc_engine=engine) as server:
        channel, call = infer_call(server.grpc_address)
        for at in range(100):
            calls = [call() for _ in range(4)]
            time.sleep(0.00003 * at)
            for held in calls:
                held.cancel()
        assert call().result().model_name == "m"
        channel.close()
    assert not caplog.records


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_http_requests_get_an_answer_or_a_refusal_and_no_reset(
    serve, tmp_path, monkeypatch, loop
):
    """Each request that was sent whole before the port closed gets 200 or 503."""
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.003)
    body = json.dumps(
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}
            ]
        }
    )
    found, ended = Counter(), threading.Event()

    def work(address):
        host, port = address.split(":")
        while not ended.is_set():
            connection = http.client.HTTPConnection(host, int(port), timeout=10)
            try:
                connection.connect()
            except ConnectionError:
                found["closed"] += 1
                ended.wait(0.002)
                continue
            try:
                while not ended.is_set():
                    connection.request("POST", "/v2/models/m/infer", body)
                    answer = connection.getresponse()
                    answer.read()
                    found[answer.status] += 1
                    if answer.status != 200:
                        assert answer.status == 503
                        assert answer.getheader("connection") == "close"
                    if answer.will_close:
                        break
            except Exception as error:
                found[repr(error)] += 1
            finally:
                connection.close()

    with serve({"m": model}, instances=2) as server:
        threads = [
            threading.Thread(target=work, args=(server.http_address,))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        # All of them are in the midst of it, however slow the machine is.
        end = time.monotonic() + 60
        while found[200] < 100 and time.monotonic() < end:
            time.sleep(0.01)
    time.sleep(0.1)
    ended.set()
    for thread in threads:
        thread.join(20)
    assert found.keys() <= {200, 503, "closed"}, found
    assert found[200] >= 100


def test_a_request_is_answered_that_the_loop_was_too_busy_to_read(serve, tmp_path):
    """Its connection is taken for idle for too long, though the request is there."""
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, idle_timeout_s=0.4) as server:
        connection = http.client.HTTPConnection(server.http_address, timeout=20)
        for _ in range(2):
            connection.request("GET", "/v2/health/live")
            assert connection.getresponse().read() == b'{"live":true}'
            server._loop.call_soon_threadsafe(time.sleep, 0.8)
            time.sleep(0.1)
        connection.close()


def test_idle_connections_do_not_delay_the_end(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}) as server:
        connections = []
        for _ in range(5):
            connection = http.client.HTTPConnection(server.http_address, timeout=10)
            connection.request("GET", "/v2/health/live")
            assert connection.getresponse().read() == b'{"live":true}'
            connections.append(connection)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    for connection in connections:
        assert connection.sock.recv(10) == b""
        connection.close()


@pytest.mark.parametrize("engine", GRPC_ENGINES)
def test_silent_connections_to_the_grpc_port_are_closed(serve, tmp_path, engine):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, head_timeout_s=0.5, grpc_engine=engine) as server:
        host, port = server.grpc_address.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as held:
            began = time.monotonic()
            while held.recv(1000):
                pass
            assert time.monotonic() - began < 5


def test_one_grpc_connection_learns_of_the_end_and_its_calls_are_answered(
    serve, tmp_path
):
    """GOAWAY first, so that new calls go elsewhere; those on their way get a status."""
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.4)
    server = serve({"m": model}, grpc_engine="asyncio").__enter__()
    stopping = threading.Thread(target=server.stop)
    with Peer(server.grpc_address) as peer:
        peer.send(headers(1, request(INFER)), data(1, infer_message(X)))
        time.sleep(0.1)
        stopping.start()
        assert peer.until(GOAWAY)[3] == struct.pack(">II", 2**31 - 1, 0)
        peer.send(headers(3, request(INFER)), data(3, infer_message(X)))
        assert peer.status(3)[0] == grpc.StatusCode.UNAVAILABLE.value[0]
        assert peer.status(1) == (0, b"")
        assert peer.until(GOAWAY)[3][:8] == struct.pack(">II", 3, 0)
        assert peer.read() is None
    stopping.join(20)
    assert not stopping.is_alive()
