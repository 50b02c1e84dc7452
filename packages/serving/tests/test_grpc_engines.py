"""The clients of gRPC against both engines; what they see must be the same."""

import asyncio
import threading
import time

import grpc
import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient
from proa_serving.protocol import rpc
from proa_serving.protocol.errors import ModelFailedError
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import InferRequest, Tensor

SERVICE = "/inference.GRPCInferenceService/"
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def message(x=X, model="m", request_id="", binary=True):
    tensors = [Tensor.of("x", x)]
    request = InferRequest(model, tensors, id=request_id, binary_output=binary)
    return rpc.encode_request(request, binary)


def outputs(response):
    return rpc.decode_response(response)["y"]


@pytest.fixture(scope="module", params=["asyncio", "grpcio"])
def server(request, serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = {
        "m": small_models.write_linear(folder / "m.linear"),
        "slow": small_models.write_linear(folder / "s.linear", sleep=0.2, batch=False),
    }
    with serve(models, grpc_engine=request.param) as running:
        yield running


@pytest.fixture
def channel(server):
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.grpc_address, options) as held:
        yield held


def method(channel, name="ModelInfer", kind=pb.ModelInferResponse):
    return channel.unary_unary(
        SERVICE + name,
        request_serializer=lambda held: held.SerializeToString(),
        response_deserializer=kind.FromString,
    )


def test_inference_in_raw_and_typed_contents(channel):
    for binary in (True, False):
        found = method(channel)(message(request_id="7", binary=binary))
        assert found.id == "7"
        assert bool(found.raw_output_contents) is binary
        np.testing.assert_allclose(outputs(found), small_models.linear(X), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 1000, 4096, 37_000, 500_000])
def test_messages_of_any_size(channel, rows):
    x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
    for _ in range(2):
        found = outputs(method(channel)(message(x)))
        np.testing.assert_allclose(found, small_models.linear(x), rtol=1e-4, atol=1e-5)


def test_a_deadline_ends_the_call_and_what_waits_is_not_run(server, channel):
    infer, before = method(channel), time.monotonic()
    calls = [infer.future(message(X[0], "slow"), timeout=0.1) for _ in range(8)]
    assert {call.code() for call in calls} == {grpc.StatusCode.DEADLINE_EXCEEDED}
    # One ran, and the others were never executed.
    assert infer(message(X[0], "slow"), timeout=5).model_name == "slow"
    assert time.monotonic() - before < 1.0


def test_calls_that_the_client_cancels_are_not_run(channel):
    infer, before = method(channel), time.monotonic()
    calls = [infer.future(message(X[0], "slow")) for _ in range(10)]
    time.sleep(0.05)
    for call in calls:
        call.cancel()
    assert infer(message(X[0], "slow"), timeout=5).model_name == "slow"
    assert time.monotonic() - before < 1.2


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages(channel, how):
    for rows in (10, 100_000):
        x = np.ones((rows, 4), np.float32)
        found = method(channel)(message(x), compression=how)
        np.testing.assert_allclose(outputs(found), small_models.linear(x), rtol=1e-5)


def test_messages_of_errors_travel_in_any_language(channel):
    with pytest.raises(grpc.RpcError) as caught:
        method(channel)(message(model="größe 100%\n模型"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "größe 100%" in caught.value.details()
    assert "模型" in caught.value.details()


def test_errors_have_their_code(server, channel):
    with pytest.raises(grpc.RpcError) as caught:
        method(channel, "Absent")(message())
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    with GrpcClient(server.grpc_address) as client, pytest.raises(ModelFailedError):
        client.infer("m", {"x": X * np.nan})


def test_health_by_the_standard_service(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    for name in (b"", b"inference.GRPCInferenceService", b"m"):
        assert check(b"\x0a%c%b" % (len(name), name) if name else b"") == b"\x08\x01"
    with pytest.raises(grpc.RpcError) as caught:
        check(b"\x0a\x06absent")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def stream(channel):
    return channel.stream_stream(
        SERVICE + "ModelStreamInfer",
        request_serializer=lambda held: held.SerializeToString(),
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )


def test_a_stream_of_inferences_is_answered_in_order(channel):
    xs = [np.full((rows, 4), rows, np.float32) for rows in (1, 30_000, 2, 100_000, 3)]
    requests = [message(x, request_id=str(at)) for at, x in enumerate(xs)]
    requests.insert(2, message(model="absent"))
    found = list(stream(channel)(iter(requests)))
    assert "expected a model that is served" in found.pop(2).error_message
    for at, (x, answer) in enumerate(zip(xs, found, strict=True)):
        assert answer.infer_response.id == str(at)
        want = small_models.linear(x)
        np.testing.assert_allclose(outputs(answer.infer_response), want, rtol=1e-5)


def test_a_stream_answers_each_request_before_the_next(channel):
    answered = threading.Semaphore(0)

    def requests():
        for _ in range(5):
            yield message()
            assert answered.acquire(timeout=10)

    count = 0
    for answer in stream(channel)(requests()):
        assert not answer.error_message
        count += 1
        answered.release()
    assert count == 5


def test_many_calls_at_one_time_on_one_connection(channel):
    infer = method(channel)
    xs = [np.full((1, 4), at, np.float32) for at in range(400)]
    calls = [infer.future(message(x, request_id=str(at))) for at, x in enumerate(xs)]
    for at, call in enumerate(calls):
        assert call.result().id == str(at)
        want = small_models.linear(xs[at])
        np.testing.assert_allclose(outputs(call.result()), want, rtol=1e-5)


def test_asyncio_clients(server):
    async def run():
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            infer = method(channel)
            found = await asyncio.gather(*(infer(message()) for _ in range(50)))
            return [outputs(each) for each in found]

    for found in asyncio.run(run()):
        np.testing.assert_allclose(found, small_models.linear(X), rtol=1e-6)


def test_long_metadata_is_refused_and_short_is_not(server, channel):
    infer = method(channel)
    for at in range(200):  # The table of the connection forgets the oldest.
        metadata = [("x-trace", f"{at:0100}"), (f"x-{at}-bin", bytes(range(200)))]
        assert infer(message(), metadata=metadata).model_name == "m"
    with pytest.raises(grpc.RpcError) as caught:
        infer(message(), metadata=[("x-long", "a" * 20_000)])
    assert caught.value.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    )
    assert infer(message()).model_name == "m"


def test_keepalive_pings_are_answered(server):
    options = [
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_timeout_ms", 2000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
    with grpc.insecure_channel(server.grpc_address, options) as channel:
        infer = method(channel)
        assert infer(message()).model_name == "m"
        time.sleep(2.5)
        assert infer(message(), timeout=0.5).model_name == "m"
