"""TLS and mutual TLS, by Python's, grpcio's and Triton's clients."""

import gc
import http.client
import logging
import socket
import ssl
import time

import grpc
import numpy as np
import pytest
import small_models
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from certificates import Authority
from http2_peer import Peer

from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.config import ModelSource
from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.security.tls import TlsFiles

X = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
LARGE = np.random.default_rng(3).normal(size=(40_000, 4)).astype(np.float32)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def model(tmp_path):
    return {"m": small_models.write_linear(tmp_path / "m.linear")}


def https(address, authority, client=None):
    context = ssl.create_default_context(cafile=str(authority.path))
    if client is not None:
        context.load_cert_chain(*client)
    return http.client.HTTPSConnection(address, context=context, timeout=10)


def live(connection):
    connection.request("GET", "/v2/health/live")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def serial(address, authority):
    context = ssl.create_default_context(cafile=str(authority.path))
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname=host) as held,
    ):
        return held.getpeercert()["serialNumber"]


def read_pem(path):
    return path.read_bytes()


@pytest.mark.parametrize("x", [X, LARGE], ids=["small", "large"])
def test_tritonclients_over_tls(serve, model, authority, x):
    tls = TlsFiles(*authority.issue("server"))
    with serve(model, tls=tls) as server:
        http_client = triton_http.InferenceServerClient(
            server.http_address,
            ssl=True,
            ssl_context_factory=lambda: ssl.create_default_context(
                cafile=str(authority.path)
            ),
        )
        grpc_client = triton_grpc.InferenceServerClient(
            server.grpc_address, ssl=True, root_certificates=str(authority.path)
        )
        for kind, client in ((triton_http, http_client), (triton_grpc, grpc_client)):
            tensor = kind.InferInput("x", x.shape, "FP32")
            tensor.set_data_from_numpy(x)
            for _ in range(2):
                found = client.infer("m", [tensor]).as_numpy("y")
                want = small_models.linear(x)
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
            client.close()
        del client, http_client, grpc_client
        gc.collect()


@pytest.mark.parametrize("engine", ["asyncio", "grpcio"])
def test_mutual_tls_wants_a_certificate_that_the_authority_signed(
    serve, model, authority, tmp_path, engine, caplog
):
    caplog.set_level(logging.ERROR)
    stranger = Authority(tmp_path, "stranger")
    tls = TlsFiles(*authority.issue("server"), authority.path)
    good, bad = authority.issue("client"), stranger.issue("bad client")
    with serve(model, tls=tls, grpc_engine=engine) as server:
        assert live(https(server.http_address, authority, good)) == 200
        for wrong in (None, bad):
            with pytest.raises(OSError):  # TLS 1.3 tells it at once or late
                live(https(server.http_address, authority, wrong))
        for held, is_good in ((good, True), (bad, False)):
            chain, key = map(read_pem, held)
            credentials = grpc.ssl_channel_credentials(
                read_pem(authority.path), key, chain
            )
            with grpc.secure_channel(server.grpc_address, credentials) as channel:
                check = channel.unary_unary("/grpc.health.v1.Health/Check")
                if is_good:
                    assert check(b"", timeout=10) == b"\x08\x01"
                    continue
                with pytest.raises(grpc.RpcError) as caught:
                    check(b"", timeout=10)
                assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert not [each for each in caplog.records if each.name.startswith("proa")]


def test_a_replaced_certificate_serves_new_connections(serve, model, authority, caplog):
    caplog.set_level(logging.INFO)
    chain, key = authority.issue("server")
    with serve(model, tls=TlsFiles(chain, key)) as server:
        address = server.http_address
        first = serial(address, authority)
        connection = https(address, authority)
        assert live(connection) == 200
        chain.write_bytes(chain.read_bytes()[:100])
        end = time.monotonic() + 10
        while "stays in use" not in caplog.text and time.monotonic() < end:
            time.sleep(0.05)
        assert serial(address, authority) == first
        authority.issue("server")
        while serial(address, authority) == first and time.monotonic() < end:
            time.sleep(0.05)
        assert serial(address, authority) != first
        assert serial(server.grpc_address, authority) != first
        assert live(connection) == 200  # it keeps what it began with


def test_grpc_over_tls_is_negotiated(serve, model, authority):
    tls = TlsFiles(*authority.issue("server"))
    context = ssl.create_default_context(cafile=str(authority.path))
    with serve(model, tls=tls) as server:
        for offered, want in ((["h2"], True), (["http/1.1"], False), ([], False)):
            if offered:
                context.set_alpn_protocols(offered)
            else:
                context = ssl.create_default_context(cafile=str(authority.path))
            peer = Peer(server.grpc_address, begin=False, tls=context)
            with peer:
                peer.send(
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
                )
                assert (peer.read() is not None) is want


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(serve, model, authority, version):
    tls = TlsFiles(*authority.issue("server"))
    context = ssl.create_default_context(cafile=str(authority.path))
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with serve(model, tls=tls) as server:
        with pytest.raises(OSError):  # the text is OpenSSL's
            live(
                http.client.HTTPSConnection(
                    server.http_address, context=context, timeout=10
                )
            )
        assert live(https(server.http_address, authority)) == 200


def test_clients_that_do_not_shake_hands(serve, model, authority, caplog):
    """They are closed in time, and neither lock others out nor fill the log."""
    caplog.set_level(logging.WARNING)
    tls = TlsFiles(*authority.issue("server"))
    options = {"tls": tls, "head_timeout_s": 0.6, "max_connections": 10}
    with serve(model, **options) as server:
        host, port = server.http_address.split(":")
        held = [socket.create_connection((host, int(port)), 10) for _ in range(30)]
        for each in held[::2]:
            each.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert live(https(server.http_address, authority)) == 200
        for each in held:
            each.settimeout(5)
            try:
                while each.recv(1000):  # an alert, or nothing
                    pass
            except ConnectionResetError:
                pass
            each.close()
        listener = server._server._fronts.by_protocol["http"][0]
        end = time.monotonic() + 5
        while listener._opening and time.monotonic() < end:
            time.sleep(0.02)
        assert not listener._opening
        assert live(https(server.http_address, authority)) == 200
    assert not caplog.records


def test_errors_and_limits_over_tls(serve, model, authority):
    tls = TlsFiles(*authority.issue("server"))
    with serve(model, tls=tls, max_request_bytes=2**20) as server:
        held = https(server.http_address, authority)
        held.request("POST", "/v2/models/m/infer", b"{}", {"Content-Length": "9999999"})
        answer = held.getresponse()
        assert (answer.status, answer.getheader("connection")) == (413, "close")
        assert b"body must be at most" in answer.read()
        assert live(https(server.http_address, authority)) == 200


def test_files_that_are_no_certificate_fail_the_start(model, authority, tmp_path):
    chain, key = authority.issue("server")
    other = authority.issue("other")[1]
    for files in (
        TlsFiles(chain, other),
        TlsFiles(chain, tmp_path / "absent"),
        TlsFiles(chain, key, tmp_path / "absent"),
    ):
        sources = tuple(ModelSource(*item) for item in model.items())
        config = ServerConfig(models=sources, http_port=0, tls=files)
        with pytest.raises(InvalidRequestError, match="must be a certificate"):
            BackgroundServer(config).__enter__()
