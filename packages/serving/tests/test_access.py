"""Who may call: keys, rates, origins, the admin port; and Unix sockets."""

import hashlib
import http.client
import itertools
import json
import socket
import time

import grpc
import numpy as np
import pytest
import small_models
from http2_peer import INFER, Peer, data, headers, infer_message
from http2_peer import request as block
from hypothesis import given
from hypothesis import strategies as st

from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.config import ModelSource
from proa_serving.http2 import frames
from proa_serving.protocol.errors import (
    AddressInUseError,
    ForbiddenError,
    InvalidRequestError,
    QueueFullError,
    RateLimitedError,
    UnauthenticatedError,
)
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.security.keys import ApiKeys
from proa_serving.security.rate import RateLimit, RateLimiter

X = np.ones((2, 4), np.float32)
USER, ADMIN = "user-0123456789abcdef", "admin-0123456789abcdef"


def line(name, key, role=""):
    return f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()} {role}\n"


@pytest.fixture
def model(tmp_path):
    return {"m": small_models.write_linear(tmp_path / "m.linear")}


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# keys\n\n" + line("ann", USER) + line("root", ADMIN, "admin"))
    return path


def exchange(address, method, path, body=None, **more):
    held = http.client.HTTPConnection(address, timeout=10)
    names = {name.replace("_", "-"): value for name, value in more.items()}
    held.request(method, path, body, names)
    answer = held.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    held.close()
    return found


# Keys


@pytest.mark.parametrize("engine", ["asyncio", "grpcio"])
def test_keys_are_wanted_by_both_protocols(serve, model, keys, engine):
    with serve(model, api_keys=keys, grpc_engine=engine) as server:
        for kind, address in (
            (HttpClient, server.http_address),
            (GrpcClient, server.grpc_address),
        ):
            with kind(address, api_key=USER) as client:
                assert client.infer("m", {"x": X})["y"].shape == (2, 3)
                assert client.server_metadata().name == "proa-serving"
            for wrong in (None, USER[:-1], USER + "0"):
                with kind(address, api_key=wrong) as client:
                    assert client.live()
                    assert client.ready()
                    with pytest.raises(UnauthenticatedError, match="an API key"):
                        client.infer("m", {"x": X})
                    with pytest.raises(UnauthenticatedError):
                        client.repository_index()


def test_keys_in_either_header(serve, model, keys):
    with serve(model, api_keys=keys) as server:
        address = server.http_address
        for given_ in ({"X_API_Key": USER}, {"authorization": f"bearer {USER}"}):
            assert exchange(address, "GET", "/v2/models/m", **given_)[0] == 200
        for given_ in ({"authorization": USER}, {"authorization": f"Basic {USER}"}, {}):
            status, held, body = exchange(address, "GET", "/metrics", **given_)
            assert (status, held["www-authenticate"]) == (401, "Bearer")
            assert "an API key" in json.loads(body)["error"]
        with GrpcClient(server.grpc_address) as client:
            client._metadata = [("x-api-key", USER)]
            assert client.infer("m", {"x": X})["y"].shape == (2, 3)


def test_a_refused_body_is_not_received(serve, model, keys):
    with serve(model, api_keys=keys) as server:
        host, port = server.http_address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as held:
            held.sendall(
                b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
                b"Content-Length: 50000000\r\n\r\n"
            )
            assert b"401 Unauthorized" in held.recv(1000)
        held = http.client.HTTPConnection(server.http_address, timeout=10)
        for key, want in ((None, 401), (USER, 400), (None, 401)):
            more = {} if key is None else {"X-API-Key": key}
            held.request("POST", "/v2/models/m/infer", b"{}", more)
            sock = held.sock
            answer = held.getresponse()
            answer.read()
            assert answer.status == want
            assert sock is held.sock  # a small body is read, and the connection kept
        held.close()


def test_a_file_of_keys_is_read_again(serve, model, keys, caplog):
    with serve(model, api_keys=keys) as server:
        address = server.http_address

        def status(key):
            return exchange(address, "GET", "/v2/models/m", X_API_Key=key)[0]

        assert (status(USER), status("new-key")) == (200, 401)
        keys.write_text("a bare key\n")
        end = time.monotonic() + 10
        while "stay in use" not in caplog.text and time.monotonic() < end:
            time.sleep(0.02)
        assert "bare" not in caplog.text
        assert status(USER) == 200
        keys.write_text(line("new", "new-key"))
        while status("new-key") != 200 and time.monotonic() < end:
            time.sleep(0.02)
        assert (status(USER), status("new-key")) == (401, 200)


@pytest.mark.parametrize("text", ["", "# none\n", "ann secret\n", "ann sha256:12\n"])
def test_a_wrong_file_of_keys_fails_the_start(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match="api keys"):
        ApiKeys(path)
    with pytest.raises(InvalidRequestError, match="the file cannot be read"):
        ApiKeys(tmp_path / "absent")


# The admin port


def test_models_are_loaded_at_the_admin_port_alone(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    with serve(repository=tmp_path, admin_port=0) as server:
        for kind, address in (
            (HttpClient, server.http_address),
            (GrpcClient, server.grpc_address),
        ):
            with kind(address) as client:
                with pytest.raises(ForbiddenError, match="admin port"):
                    client.unload_model("m")
                assert client.infer("m", {"x": X})["y"].shape == (2, 3)
        with HttpClient(server.admin_address) as client:
            client.unload_model("m")
            assert not client.model_ready("m")
            client.load_model("m")
            assert client.model_ready("m")


@pytest.mark.parametrize("control", [False, True])
def test_administrators_have_keys_of_their_own(serve, tmp_path, keys, control):
    small_models.write_linear(tmp_path / "r" / "m" / "1" / "model.linear")
    options = {"admin_port": 0, "api_keys": keys, "model_control": control}
    with serve(repository=tmp_path / "r", **options) as server:
        with HttpClient(server.admin_address, api_key=ADMIN) as client:
            client.load_model("m")
        with (
            HttpClient(server.admin_address, api_key=USER) as client,
            pytest.raises(ForbiddenError, match="an admin's API key"),
        ):
            client.load_model("m")
        with (
            HttpClient(server.admin_address) as client,
            pytest.raises(UnauthenticatedError),
        ):
            client.load_model("m")
        for key, allowed in ((USER, False), (ADMIN, control)):
            with GrpcClient(server.grpc_address, api_key=key) as client:
                if allowed:
                    client.load_model("m")
                    continue
                with pytest.raises(ForbiddenError):
                    client.load_model("m")


# Rates


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 20), st.integers(1, 9))
def test_a_bucket_allows_no_more_than_rate_and_burst(waits, rate, burst):
    """In any interval at most burst + rate * seconds; after 1/rate always one more."""
    now = 0.0
    limiter = RateLimiter(RateLimit(rate, burst), lambda: now)
    taken = []
    for wait in waits:
        now += wait
        try:
            limiter.take("a")
            taken.append(now)
        except RateLimitedError as error:
            assert 0 < error.seconds <= 1 / rate
            now += error.seconds + 1e-9
            limiter.take("a")
            taken.append(now)
    for (at, first), (other, last) in itertools.combinations(enumerate(taken), 2):
        assert other - at + 1 <= burst + rate * (last - first) + 1e-6


def test_each_client_has_its_own_bucket_and_they_are_bounded():
    limiter = RateLimiter(RateLimit(1, 1), lambda: 0.0)
    for client in range(20_000):
        limiter.take(str(client))
    with pytest.raises(RateLimitedError):
        limiter.take("19999")
    assert len(limiter._buckets) == 10_000


def test_rates_are_limited_in_both_protocols(serve, model, keys):
    options = {"rate_limit": RateLimit(0.5, 3), "api_keys": keys}
    with serve(model, **options) as server:
        # The same bucket, whichever way a key's owner calls.
        with HttpClient(server.http_address, api_key=USER) as client:
            for _ in range(3):
                client.infer("m", {"x": X})
        with GrpcClient(server.grpc_address, api_key=USER) as client:
            with pytest.raises(QueueFullError, match=r"may send 0\.5 requests/s"):
                client.infer("m", {"x": X})
            assert client.live()
        path = "/v2/models/m"
        status, held, body = exchange(server.http_address, "GET", path, X_API_Key=USER)
        assert status == 429
        assert 1 <= int(held["retry-after"]) <= 2
        assert "try again in" in json.loads(body)["error"]
        status = exchange(server.http_address, "GET", path, X_API_Key=ADMIN)[0]
        assert status == 200  # another client's
        # Guesses of keys have a bucket too.
        found = [exchange(server.http_address, "GET", path)[0] for _ in range(5)]
        assert found == [401, 401, 401, 429, 429]


@pytest.mark.parametrize("engine", ["asyncio", "grpcio"])
def test_messages_of_a_stream_are_limited_like_calls(serve, model, engine):
    options = {"rate_limit": RateLimit(0.01, 3), "grpc_engine": engine}
    message = pb.ModelInferRequest.FromString(infer_message(X)[5:])
    with (
        serve(model, **options) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stream = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        found = [each.error_message for each in stream(iter([message] * 5))]
    assert found[:3] == [""] * 3
    assert all("may send 0.01 requests/s" in text for text in found[3:])


def test_rates_are_parsed():
    assert RateLimit.parse("10") == RateLimit(10, 10)
    assert RateLimit.parse("0.5") == RateLimit(0.5, 1)
    assert RateLimit.parse("5:50") == RateLimit(5, 50)
    for text in ("", "0", "-1", "a", "1:", "1:0", "nan", "inf", "1:nan"):
        with pytest.raises(InvalidRequestError):
            RateLimit.parse(text)


# Origins

PAGE = "https://app.example"
PREFLIGHT = {"Origin": PAGE, "Access_Control_Request_Method": "POST"}
ALLOWS = "access-control-allow-origin"


def test_web_pages_may_not_call_unless_they_are_allowed(serve, model):
    with serve(model) as server:
        _, held, _ = exchange(server.http_address, "GET", "/v2", Origin=PAGE)
        assert ALLOWS not in held
        status, held, _ = exchange(server.http_address, "OPTIONS", "/v2", **PREFLIGHT)
        assert status == 405
        assert ALLOWS not in held


def test_allowed_web_pages(serve, model, keys):
    options = {"cors_origins": (PAGE,), "api_keys": keys}
    with serve(model, **options) as server:
        address, path = server.http_address, "/v2/models/m/infer"
        status, held, _ = exchange(address, "OPTIONS", path, **PREFLIGHT)
        assert (status, held[ALLOWS]) == (200, PAGE)
        assert "POST" in held["access-control-allow-methods"]
        assert "Authorization" in held["access-control-allow-headers"]
        for key, want in ((USER, 400), ("wrong", 401)):  # errors are readable too
            more = {"Origin": PAGE, "X_API_Key": key}
            status, held, _ = exchange(address, "POST", path, b"[]", **more)
            assert (status, held[ALLOWS], held["vary"]) == (want, PAGE, "Origin")
        more = {"Origin": "https://other.example", "X_API_Key": USER}
        status, held, _ = exchange(address, "GET", "/v2", **more)
        assert (status, held["vary"]) == (200, "Origin")
        assert ALLOWS not in held
    with serve(model, cors_origins=("*",)) as server:
        held = exchange(server.http_address, "GET", "/v2", Origin=PAGE)[1]
        assert held[ALLOWS] == "*"


# Unix sockets


@pytest.mark.parametrize("engine", ["asyncio", "grpcio"])
def test_unix_sockets(tmp_path, model, engine):
    paths = {name: tmp_path / f"{name}.sock" for name in ("http", "grpc")}
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(paths["http"]))
    stale.close()  # left by a server that was killed
    config = ServerConfig(
        models=tuple(ModelSource(*item) for item in model.items()),
        http_port=None,
        http_socket=paths["http"],
        grpc_socket=paths["grpc"],
        grpc_engine=engine,
    )
    with BackgroundServer(config) as server:
        assert server.http_address == f"unix:{paths['http']}"
        for kind, address in (
            (HttpClient, server.http_address),
            (GrpcClient, server.grpc_address),
        ):
            for rows in (2, 30_000):
                x = np.full((rows, 4), rows, np.float32)
                with kind(address) as client:
                    found = client.infer("m", {"x": x})["y"]
                want = small_models.linear(x)
                np.testing.assert_allclose(found, want, rtol=1e-4)
        with pytest.raises(AddressInUseError):
            BackgroundServer(config).__enter__()
        with HttpClient(server.http_address) as client:  # it was not disturbed
            assert client.live()
    assert not any(path.exists() for path in paths.values())


def test_a_file_that_is_no_socket_is_not_removed(tmp_path, model):
    path = tmp_path / "file"
    path.write_text("precious")
    sources = tuple(ModelSource(*item) for item in model.items())
    for wrong in (path, tmp_path / "absent" / "s", tmp_path / ("a" * 200)):
        config = ServerConfig(models=sources, http_port=None, http_socket=wrong)
        with pytest.raises(AddressInUseError, match="cannot"):
            BackgroundServer(config).__enter__()
    assert path.read_text() == "precious"


def test_cancelled_calls_leave_no_trace_in_the_log(serve, tmp_path, caplog):
    model = {"m": small_models.write_linear(tmp_path / "m.linear", sleep=0.1)}
    for engine in ("asyncio", "grpcio"):
        with (
            serve(model, grpc_engine=engine) as server,
            Peer(server.grpc_address, begin=engine == "asyncio") as peer,
        ):
            if engine == "grpcio":
                peer.send(frames.PREFACE + frames.settings({}))
            for number in (1, 3, 5):
                peer.send(headers(number, block(INFER)), data(number, infer_message(X)))
            time.sleep(0.05)
            for number in (1, 3, 5):
                payload = frames.CANCEL.to_bytes(4, "big")
                size = len(payload)
                peer.send(frames.head(size, frames.RST_STREAM, 0, number) + payload)
            time.sleep(0.4)
            with GrpcClient(server.grpc_address) as client:
                assert client.infer("m", {"x": X})["y"].shape == (2, 3)
    assert not [each for each in caplog.records if each.exc_info]
