"""Whatever is sent, the answer is a typed error and the server lives on."""

import http.client
import json
import socket
import struct

import grpc
import numpy as np
import pytest
import small_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import TooLargeError
from proa_serving.protocol.generated import open_inference_pb2 as pb

INFER = "/v2/models/linear/infer"
GOOD = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
BINARY = {k: v for k, v in GOOD.items() if k != "data"}


def post(server, body, headers=None, *, path=INFER, method="POST"):
    connection = http.client.HTTPConnection(server.http_address, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def alive(server):
    return post(server, json.dumps({"inputs": [GOOD]}))[0] == 200


def binary(size, raw, **changes):
    head = {**BINARY, "parameters": {"binary_data_size": size}, **changes}
    text = json.dumps({"inputs": [head]}).encode()
    return text + raw, {"Inference-Header-Content-Length": str(len(text))}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "must be a JSON object"),
        (b"{", "must be a JSON object"),
        (b"[" * 100_000, "must be a JSON object"),
        (b"\xff\xfe{}", "must be a JSON object"),
        (b"[]", "got a list"),
        ({}, "must have inputs"),
        ({"inputs": 3}, "list of objects"),
        ({"inputs": [3]}, "list of objects"),
        ({"inputs": []}, "inputs must be"),
        ({"inputs": [GOOD, GOOD]}, "expected once, got twice"),
        ({"inputs": [GOOD], "outputs": [{"name": "q"}]}, "outputs must be among"),
        (
            {"inputs": [GOOD], "outputs": [{"name": "y"}] * 2},
            "expected once, got twice",
        ),
        ({"inputs": [GOOD], "id": 4}, "id must be a string"),
        ({"inputs": [GOOD], "parameters": []}, "parameters must be an object"),
        ({"inputs": [{**GOOD, "name": "w"}]}, "inputs must be"),
        ({"inputs": [{**GOOD, "name": ""}]}, "must have a name"),
        ({"inputs": [{**GOOD, "datatype": "FP33"}]}, "datatype must be one of"),
        ({"inputs": [{**GOOD, "datatype": "INT8"}]}, "datatype must be FP32"),
        ({"inputs": [{**GOOD, "datatype": "FP64"}]}, "datatype must be FP32"),
        ({"inputs": [{**GOOD, "shape": [2, 4]}]}, "must hold 8 elements, got 4"),
        ({"inputs": [{**GOOD, "shape": [4]}]}, r"shape must be [-1, 4], got [4]"),
        ({"inputs": [{**GOOD, "shape": [-1, 4]}]}, "sizes of 0 or more"),
        ({"inputs": [{**GOOD, "shape": [1.0, 4]}]}, "sizes of 0 or more"),
        ({"inputs": [{**GOOD, "shape": [True, 4]}]}, "sizes of 0 or more"),
        ({"inputs": [{**GOOD, "shape": [2**40, 2**40]}]}, "beyond any memory"),
        ({"inputs": [{**GOOD, "shape": [1] * 99}]}, "at most 32 dims"),
        ({"inputs": [{**GOOD, "shape": "14"}]}, "shape must be a list"),
        ({"inputs": [{**GOOD, "data": "1234"}]}, "data must be a list"),
        ({"inputs": [{**GOOD, "data": [1, 2, 3, "4"]}]}, "must be numbers"),
        ({"inputs": [{**GOOD, "data": [1, 2, 3, None]}]}, "must be numbers"),
        ({"inputs": [{**GOOD, "data": [[1, 2], [3]]}]}, "regular list"),
        ({"inputs": [{**GOOD, "data": [[1, 2], [3, 4]]}]}, "nested data"),
        ({"inputs": [BINARY]}, "got neither"),
        (
            {"inputs": [{**GOOD, "parameters": {"shared_memory_region": "r"}}]},
            "shared_memory_byte_size must be a size",
        ),
    ],
)
def test_malformed_json(server, body, message):
    status, answer = post(server, body if isinstance(body, bytes) else json.dumps(body))
    assert status == 400
    assert message in answer["error"]
    assert alive(server)


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (*binary(15, bytes(15)), "must be 16 bytes, got 15"),
        (*binary(16, bytes(12)), "at most the 12 bytes left"),
        (*binary(16, bytes(17)), "got 1 bytes more"),
        (*binary(-1, bytes(16)), "binary_data_size must be a size"),
        (*binary("16", bytes(16)), "binary_data_size must be a size"),
        (*binary(16, bytes(16), data=[1]), "got both"),
        (b"{}", {"Inference-Header-Content-Length": "9"}, "at most the body's 2 bytes"),
        (b"{}", {"Inference-Header-Content-Length": "-1"}, "must be a number"),
        (b"{}", {"Inference-Header-Content-Length": "9" * 30}, "must be a number"),
        (b"{}", {"Inference-Header-Content-Length": "\xb2"}, "must be a number"),
        *[
            (b"{}", {"Inference-Header-Content-Length": "\xb2", **gzipped}, message)
            for gzipped, message in (
                ({"Content-Encoding": "identity"}, "must be a number"),
                ({"Content-Encoding": "gzip"}, "compressed body is damaged"),
            )
        ],
        (b"{}", {"Content-Encoding": "gzip"}, "compressed body is damaged"),
    ],
)
def test_malformed_binary(server, body, headers, message):
    status, answer = post(server, body, headers)
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", INFER, 405),
        ("POST", "/v2/health/live", 405),
        ("GET", "/", 404),
        ("GET", "/v2/models/linear/settings", 404),
        ("GET", "/v2/models/absent", 404),
        ("GET", "/v2/models/linear/versions/9/ready", 404),
        ("POST", "/v2/models/linear/versions/9/infer", 404),
        ("POST", "/v2/models/%2e%2e%2flinear/infer", 404),
        ("POST", "/v2/repository/models/linear/load", 403),
    ],
)
def test_paths_and_methods(server, method, path, status):
    body = json.dumps({"inputs": [GOOD]})
    found, answer = post(server, body, path=path, method=method)
    assert found == status
    assert answer["error"]


def test_unaligned_binary_tensors(server):
    x = np.arange(4, dtype=np.float32)
    for pad in range(4):  # spaces move the raw bytes through every alignment
        body, headers = binary(16, x.tobytes())
        size = int(headers["Inference-Header-Content-Length"])
        body = body[:size] + b" " * pad + body[size:]
        headers["Inference-Header-Content-Length"] = str(size + pad)
        assert post(server, body, headers)[0] == 200


def test_a_head_that_is_known_is_checked_again(server):
    """The JSON of a request is remembered; its tensors never are."""
    for at in range(3):
        x = np.full((1, 4), at, np.float32)
        body, headers = binary(16, x.tobytes())
        status, answer = post(server, body, headers)
        assert status == 200
        np.testing.assert_allclose(
            answer["outputs"][0]["data"], small_models.linear(x)[0], rtol=1e-5
        )
        for change, message in ((body + b"1", "1 bytes more"), (body[:-1], "15 bytes")):
            status, answer = post(server, change, headers)
            assert status == 400
            assert message in answer["error"]
        fixed = "/v2/models/fixed/infer"
        assert (
            "shape must be [4]" in post(server, body, headers, path=fixed)[1]["error"]
        )


def test_bodies_beyond_the_limit(server):
    with pytest.raises(TooLargeError, match="at most 1048576 bytes"):
        HttpClient(server.http_address).infer(
            "linear", {"x": np.zeros((2**17, 4), np.float32)}
        )
    connection = http.client.HTTPConnection(server.http_address)
    chunks = (bytes(2**16) for _ in range(20))  # no length is said beforehand
    connection.request("POST", INFER, chunks, encode_chunked=False)
    answer = connection.getresponse()
    assert answer.status == 413
    connection.close()
    with (
        GrpcClient(server.grpc_address) as client,
        pytest.raises(
            Exception, match=r"larger than max|exceeds maximum|must be at most"
        ),
    ):
        client.infer("linear", {"x": np.zeros((2**17, 4), np.float32)})
    assert alive(server)


def test_a_bomb_of_zeros_is_refused(server):
    import zlib

    body = zlib.compress(bytes(2**26), 9)
    status, answer = post(server, body, {"Content-Encoding": "deflate"})
    assert status == 413
    assert "when decompressed" in answer["error"]


def talk(server, data):
    host, port = server.http_address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as held:
        held.sendall(data)
        held.shutdown(socket.SHUT_WR)
        found = b""
        while part := held.recv(65536):
            found += part
    return found


def test_a_body_that_ends_early(server):
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n".encode()
    talk(server, head + b'{"inputs"')
    assert alive(server)


def test_a_head_without_end(server):
    line = b"X-Long: " + b"a" * 2**17 + b"\r\n\r\n"
    answer = talk(server, b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + line)
    assert answer.startswith(b"HTTP/1.1 431")
    assert b"head must be at most 65536 bytes" in answer
    assert alive(server)


FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "datatype", "shape", "data", "parameters", "binary_data_size"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.fuzz
@FUZZ
@given(body=st.binary(max_size=300), size=st.none() | st.integers(-5, 400))
def test_any_bytes_get_a_typed_error(server, body, size):
    headers = {} if size is None else {"Inference-Header-Content-Length": str(size)}
    status, answer = post(server, body, headers)
    assert status in (400, 415)
    assert answer["error"].startswith("[")


@pytest.mark.fuzz
@FUZZ
@given(
    key=st.sampled_from([*GOOD, "parameters"]),
    value=anything,
    outer=st.sampled_from(["inputs", "outputs", "parameters", "id", "tensor"]),
)
def test_any_json_gets_an_answer(server, key, value, outer):
    request = {"inputs": [{**GOOD, key: value}]}
    if outer != "tensor":
        request = {"inputs": [GOOD], outer: value}
    status, answer = post(server, json.dumps(request))
    assert status in (200, 400, 415)
    assert status == 200 or answer["error"].startswith("[")


@pytest.mark.fuzz
@FUZZ
@given(data=st.binary(max_size=120), typed=st.booleans())
def test_any_grpc_bytes_get_a_typed_error(server, data, typed):
    if typed:  # A good frame, so that the tensors themselves are reached.
        message = pb.ModelInferRequest(model_name="text")
        message.inputs.add(name="text", datatype="BYTES", shape=[len(data) % 7])
        message.raw_input_contents.append(struct.pack("<I", len(data) // 2) + data)
        data = message.SerializeToString()
    with grpc.insecure_channel(server.grpc_address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        try:
            call(data, timeout=20)
        except grpc.RpcError as error:
            assert error.code() in (
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.NOT_FOUND,
            )


def test_the_server_outlived_all_that(server):
    assert alive(server)
    with GrpcClient(server.grpc_address) as client:
        assert client.live()
