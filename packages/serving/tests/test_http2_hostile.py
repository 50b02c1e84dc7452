"""Broken and hostile HTTP/2: good clients are served meanwhile, and nothing is kept."""

import contextlib
import logging
import threading
import time

import numpy as np
import pytest
import small_models
from hostile_http2 import PARTS, START, attack, broken
from http2_peer import INFER, Peer, call, data, headers, infer_message
from http2_peer import request as block
from hypothesis import given, settings
from hypothesis import strategies as st

from proa_serving.client import GrpcClient
from proa_serving.http2.frames import Http2Error
from proa_serving.http2.reader import FrameReader
from proa_serving.protocol import rpc_bytes
from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.generated import open_inference_pb2 as pb

X = np.ones((2, 4), np.float32)


@pytest.mark.fuzz
def test_good_clients_are_served_while_others_attack(serve, tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, grpc_engine="asyncio") as server:
        threads = [
            threading.Thread(target=attack, args=(server.grpc_address, seed, 250))
            for seed in range(4)
        ]
        for thread in threads:
            thread.start()
        count = 0
        with GrpcClient(server.grpc_address) as client:
            while any(thread.is_alive() for thread in threads):
                x = np.full((1, 4), count, np.float32)
                want = small_models.linear(x)
                np.testing.assert_allclose(client.infer("m", {"x": x})["y"], want, 1e-5)
                count += 1
        assert count > 20
        end = time.monotonic() + 10
        service, listener = (
            server._server._service,
            server._server._fronts.by_protocol["grpc"][0],
        )
        while (service.budget.used or listener._connections) and time.monotonic() < end:
            time.sleep(0.05)
        assert service.budget.used == 0
        assert not listener._connections
    assert not caplog.records


class Recorder:
    """What a reader reports, with chunks of a payload joined."""

    def __init__(self):
        self.found = []

    def on_begin(self):
        self.found.append("begin")

    def on_data_begin(self, number, length):
        self.found.append([number, length, b""])

    def on_data(self, part):
        self.found[-1][2] += bytes(part)

    def on_data_end(self, number, ends):
        self.found.append((number, ends))

    def on_headers(self, *found):
        self.found.append(found)

    def on_frame(self, *found):
        self.found.append(found)


def read(chunks):
    recorder = Recorder()
    reader = FrameReader(recorder)
    try:
        for chunk in chunks:
            reader.feed(memoryview(chunk))
    except Http2Error as error:
        recorder.found.append(error.code)
    return recorder.found


@pytest.mark.fuzz
@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 400))
def test_how_bytes_are_divided_does_not_matter(rng, size):
    parts = [broken(rng, rng.choice(PARTS)) for _ in range(4)]
    sent = START + b"".join(parts)
    divided = [sent[at : at + size] for at in range(0, len(sent), size)]
    assert read(divided) == read([sent])


@pytest.mark.fuzz
@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_requests_are_what_protobuf_says(rng, count):
    """The bytes mean the same whether they are read here or by protobuf."""
    message = pb.ModelInferRequest(model_name="m", id=rng.choice(["", "a", "ü"]))
    for at in range(count):
        message.inputs.add(name=f"x{at}", datatype="FP32", shape=[at, 2])
        message.raw_input_contents.append(bytes(8 * at))
    sent = message.SerializeToString()
    if rng.randrange(3):
        sent = bytearray(sent or b"x")
        for _ in range(rng.randrange(3)):
            sent[rng.randrange(len(sent))] = rng.randrange(256)
        sent = bytes(sent)
    for _ in range(2):  # also when it is remembered
        try:
            want = pb.ModelInferRequest.FromString(sent)
            want = rpc_bytes.rpc.decode_request(want, want.raw_input_contents)
        except Exception as error:
            with pytest.raises(InvalidRequestError) as caught:
                rpc_bytes.decode_request(sent)
            if isinstance(error, InvalidRequestError):
                assert str(caught.value) == str(error)
            continue
        found = rpc_bytes.decode_request(sent)
        assert (found.model, found.version, found.id) == (
            want.model,
            want.version,
            want.id,
        )
        assert found.outputs == want.outputs
        assert found.parameters == want.parameters
        assert found.binary_output == want.binary_output
        for mine, theirs in zip(found.inputs, want.inputs, strict=True):
            assert (mine.name, mine.datatype) == (theirs.name, theirs.datatype)
            np.testing.assert_array_equal(mine.array, theirs.array)


def test_idle_grpc_connections_do_not_lock_clients_out(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"max_connections": 10, "grpc_engine": "asyncio"}
    with serve({"m": model}, **options) as server, contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(Peer(server.grpc_address))
        with GrpcClient(server.grpc_address) as client:
            assert client.infer("m", {"x": X})["y"].shape == (2, 3)


def test_health_is_answered_where_every_grpc_connection_is_busy(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"max_connections": 3, "grpc_engine": "asyncio"}
    with serve({"m": model}, **options) as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Peer(server.grpc_address)).send(headers(1))
        time.sleep(0.2)
        with Peer(server.grpc_address) as peer:
            peer.send(call(1), headers(3, block(INFER)), data(3, infer_message(X)))
            assert peer.status(1) == (0, b"")
            code, text = peer.status(3)
            assert (code, b"as many connections as it may" in text) == (14, True)
