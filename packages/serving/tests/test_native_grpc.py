"""The native transport: it answers repeated calls of gRPC as the protocol would."""

import random
import socket

import numpy as np
import pytest
import slow_calls
import small_models
from http2_peer import INFER, Peer, data, headers, infer_message, request

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.grpc.methods import GrpcMethods
from proa_serving.http2 import frames
from proa_serving.protocol import rpc_bytes
from proa_serving.protocol.errors import ModelFailedError
from proa_serving.protocol.generated import open_inference_pb2 as pb

pytest.importorskip(
    "proa_serving._native", reason="built where there is a C++ compiler"
)
WARM = 40  # calls until a model runs on the event loop, and its calls are known
INDEXED = request(INFER)  # leaves the table of headers as it is


@pytest.fixture
def calls(monkeypatch):
    """The calls that did not take the fast path; every model is quick."""
    return slow_calls.record(monkeypatch, GrpcMethods, "call", "path")


@pytest.fixture
def address(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, engine="native", grpc_engine="asyncio") as server:
        yield server.grpc_address


def infer(number, value, *, rows=1, block=INDEXED):
    """The frames of a call."""
    message = infer_message(np.full((rows, 4), value, np.float32))
    return headers(number, block) + data(number, message)


def answer(peer, number):
    """The outputs y of the call, and its status."""
    body = b""
    while True:
        kind, flags, stream, payload = peer.until(frames.DATA, frames.HEADERS)
        assert stream == number
        if kind == frames.DATA:
            body += payload
        elif flags & frames.END_STREAM:
            break
    status = int(payload[b"grpc-status"])
    if status:
        return None, status
    found = pb.ModelInferResponse.FromString(body[5:])
    names = [each.name for each in found.outputs]
    raw = dict(zip(names, found.raw_output_contents, strict=True))
    return np.frombuffer(raw["y"], np.float32).reshape(-1, 3), status


def warm(peer, block=INDEXED):
    """Calls until they are known; the next stream."""
    for number in range(1, 2 * WARM, 2):
        peer.send(infer(number, 0, block=block))
        answer(peer, number)
    return 2 * WARM + 1


def check(found, value, rows=1):
    y, status = found
    assert status == 0
    x = np.full((rows, 4), value, np.float32)
    np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-5)


def test_repeated_calls_are_answered_without_the_protocol(address, calls):
    with Peer(address) as peer:
        first = warm(peer)
        calls.clear()
        for at in range(100):
            number = first + 2 * at
            peer.send(infer(number, at))
            check(answer(peer, number), at)
        assert calls == []


def test_calls_in_one_read_are_answered_in_order(address, calls):
    with Peer(address) as peer:
        first = warm(peer)
        numbers = range(first, first + 40, 2)
        peer.send(*(infer(number, number) for number in numbers))
        for number in numbers:
            check(answer(peer, number), number)


def test_streams_must_rise_as_ever(address, calls):
    with Peer(address) as peer:
        first = warm(peer)
        peer.send(infer(first, 1))
        check(answer(peer, first), 1)
        peer.send(infer(first - 2, 1))
        assert peer.until(frames.GOAWAY) is not None
    for number in (0, 2 * WARM + 2, 2**31 + 2 * WARM + 1):
        with Peer(address) as peer:
            warm(peer)
            peer.send(infer(number, 1))
            found = peer.until(frames.GOAWAY, frames.DATA)
            # The reserved bit is ignored (RFC 9113, section 4.1).
            assert found[0] == (frames.DATA if number > 2**31 else frames.GOAWAY)


def test_blocks_that_mean_something_else_now_are_decoded_again(address, calls):
    """An index of the dynamic table names another header after an insertion."""
    path = INFER.encode()
    add = b"\x44" + bytes([len(path)]) + path  # :path, which is kept in the table
    rest = request(without=[b":path"])
    other = b"\x44\x02/x" + rest  # a newer entry, with a method that is none
    with Peer(address) as peer:
        peer.send(infer(1, 1, block=add + rest))
        answer(peer, 1)
        for number in range(3, 2 * WARM, 2):
            peer.send(infer(number, 1, block=b"\xbe" + rest))
            check(answer(peer, number), 1)
        assert len(calls) < WARM - 1
        number = 2 * WARM + 1
        peer.send(infer(number, 1, block=other))
        assert answer(peer, number) == (None, 12)
        peer.send(infer(number + 2, 1, block=b"\xbe" + rest))
        assert answer(peer, number + 2) == (None, 12)


def test_windows_bound_what_is_sent(address, calls):
    """With a window of 50 bytes for a stream an answer comes in parts."""
    settings = {frames.INITIAL_WINDOW_SIZE: 50}
    with Peer(address, settings=settings) as peer:
        for number in range(1, 40, 2):
            peer.send(infer(number, 3))
            body = peer.until(frames.DATA)[3]
            assert len(body) == 50
            peer.send(frames.window_update(number, 2**20))
            body += peer.until(frames.DATA)[3]
            found = pb.ModelInferResponse.FromString(body[5:])
            y = np.frombuffer(found.raw_output_contents[0], np.float32)
            want = small_models.linear(np.full((1, 4), 3, np.float32))
            np.testing.assert_allclose(y, want[0], rtol=1e-5)


def test_the_connection_window_is_granted_again(address, calls):
    """More bytes than its 16 MiB are received."""
    rows = 1000
    with Peer(address) as peer:
        peer.send(frames.window_update(0, 2**30))
        number = 1
        size = len(infer(1, 0, rows=rows))
        granted, sent = 16 * 2**20, 0
        while sent < 20 * 2**20:
            peer.send(infer(number, number % 7, rows=rows))
            sent += size - 18 - len(INDEXED)
            y = b""
            while True:
                kind, flags, stream, payload = peer.read()
                if kind == frames.WINDOW_UPDATE and not stream:
                    granted += int.from_bytes(payload, "big")
                elif kind == frames.DATA:
                    y += payload
                elif kind == frames.HEADERS and flags & frames.END_STREAM:
                    break
            number += 2
            assert sent <= granted
        assert len(calls) < 60


def test_a_model_that_fails_says_so_and_the_connection_stays(serve, tmp_path, calls):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, engine="native") as server:
        with Peer(server.grpc_address) as peer:
            number = warm(peer)
            for at in range(3):
                peer.send(infer(number + 4 * at, np.nan))
                assert answer(peer, number + 4 * at) == (None, 13)
                peer.send(infer(number + 4 * at + 2, at))
                check(answer(peer, number + 4 * at + 2), at)
        with HttpClient(server.http_address) as client:
            text = client.metrics()
        with (
            GrpcClient(server.grpc_address) as client,
            pytest.raises(ModelFailedError, match="got a NaN"),
        ):
            client.infer("m", {"x": np.full((1, 4), np.nan, np.float32)})
    labels = 'model="m",protocol="grpc",reason="model",version="1"'
    assert f"proa_serve_request_failures_total{{{labels}}} 3.0" in text


@pytest.mark.fuzz
def test_mutated_repeats_are_answered_as_by_the_other_engine(serve, tmp_path, calls):
    rng = random.Random(20)
    model = small_models.write_linear(tmp_path / "m.linear")
    plain = infer(7, 1.5)
    with (
        serve({"m": model}, engine="native") as one,
        serve({"m": model}, engine="python") as other,
    ):
        for server in (one, other):
            with Peer(server.grpc_address) as peer:
                warm(peer)
        for _ in range(200):
            changed = bytearray(plain)
            for _ in range(rng.choice((1, 1, 2, 4))):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            found = [_outcome(server.grpc_address, changed) for server in (one, other)]
            assert found[0] == found[1], bytes(changed)


def _outcome(address, changed):
    """The frames that come for three good calls and what follows them."""
    with Peer(address) as peer:
        for number in (1, 3, 5):
            peer.send(infer(number, 1.5))
            check(answer(peer, number), 1.5)
        peer.send(bytes(changed))
        peer.socket.shutdown(socket.SHUT_WR)
        found = []
        while (each := peer.read()) is not None:
            found.append(each)
        return found


def test_raw_ranges_are_those_that_protobuf_reads():
    message = pb.ModelInferRequest(model_name="m")
    raw = [b"abc", b"", b"x" * 300]
    for each in raw:
        message.inputs.add(name="x", datatype="UINT8", shape=[len(each)])
        message.raw_input_contents.append(each)
    data = message.SerializeToString()
    found = rpc_bytes.raw_ranges(memoryview(data))
    assert [data[begin:end] for begin, end in found] == raw
    assert rpc_bytes.raw_ranges(memoryview(data[:-1])) == []
    message.id = "of the call"
    assert rpc_bytes.raw_ranges(memoryview(message.SerializeToString())) == []
