"""Clients of several servers: retries within a budget, deadlines, hedging, asyncio."""

import asyncio
import hashlib
import json
import socket
import ssl
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import small_models
from certificates import Authority

from proa_serving.client import AsyncHttpClient, ClientPool, HttpClient, Retry
from proa_serving.client.retry import Spread
from proa_serving.protocol.errors import (
    InvalidRequestError,
    NotFoundError,
    QueueFullError,
    RequestTimeoutError,
    UnauthenticatedError,
    UnavailableError,
)
from proa_serving.security.tls import TlsFiles

X = np.ones((2, 4), np.float32)
QUICK = Retry(first_s=0.001, max_s=0.002)


class Scripted:
    """A server that answers by a script: statuses, or seconds to wait before 200.

    Once the script is over, it answers 200.
    """

    def __init__(self, *script):
        self.script, self.served = list(script), 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                outer.served += 1
                step = outer.script.pop(0) if outer.script else 200
                status = step if isinstance(step, int) else 200
                if isinstance(step, float):
                    time.sleep(step)
                body = json.dumps(
                    {"error": "[scripted] no"}
                    if status != 200
                    else {
                        "model_name": "m",
                        "outputs": [
                            {
                                "name": "who",
                                "datatype": "INT64",
                                "shape": [1],
                                "data": [outer.port],
                            }
                        ],
                    }
                ).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # of clients that did not wait
        self.port = self.server.server_port
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def unused_address():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


class Sync:
    """A ClientPool, in the form of the asynchronous one."""

    def __init__(self, *args, **options):
        self.pool = ClientPool(*args, **options)

    def infer(self, **options):
        return self.pool.infer("m", {"x": X}, **options)

    def close(self):
        self.pool.close()


class Async:
    """An AsyncHttpClient on an event loop of its own."""

    def __init__(self, *args, **options):
        self.loop = asyncio.new_event_loop()
        self.client = AsyncHttpClient(*args, **options)

    def infer(self, **options):
        return self.loop.run_until_complete(self.client.infer("m", {"x": X}, **options))

    def close(self):
        self.client.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@pytest.fixture(params=[Sync, Async])
def connect(request):
    results = []

    def make(*args, **options):
        results.append(request.param(*args, **options))
        return results[-1]

    yield make
    for client in results:
        client.close()


def test_answers_and_errors_are_the_servers(serve, tmp_path, connect):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}) as server:
        client = connect(server.http_address)
        for binary in (True, False):
            answer = client.infer(binary=binary)
            np.testing.assert_allclose(answer["y"], small_models.linear(X), rtol=1e-5)
        with pytest.raises(NotFoundError, match="version must be"):
            client.infer(version="9")
        assert client.infer(outputs=["label"], id="7").id == "7"
        client.close() if isinstance(client, Sync) else client.client.close()


def test_a_passing_error_is_tried_again_and_others_are_not(connect):
    with Scripted(503, 429, 200, 400) as server:
        client = connect(server.address, retry=QUICK)
        assert client.infer()["who"] == server.port
        assert server.served == 3
        with pytest.raises(InvalidRequestError, match="scripted"):
            client.infer()
        assert server.served == 4


def test_attempts_are_bounded(connect):
    with Scripted(*[503] * 9) as server:
        client = connect(server.address, retry=QUICK)
        with pytest.raises(UnavailableError):
            client.infer()
        assert server.served == 3


def test_the_budget_keeps_retries_from_a_server_that_is_overloaded(connect):
    retry = Retry(first_s=0.0, max_s=0.0, budget=0.1, reserve=5)
    with Scripted(*[429] * 1000) as server:
        client = connect(server.address, retry=retry)
        for _ in range(100):
            with pytest.raises(QueueFullError):
                client.infer()
    assert 105 <= server.served <= 116  # 100 requests, 5 saved, 1 for each 10


def test_a_server_that_is_gone_is_left_for_others(connect):
    with Scripted() as server:
        client = connect([unused_address(), server.address], retry=QUICK)
        for _ in range(20):
            assert client.infer()["who"] == server.port


def test_weights_share_requests(connect):
    with Scripted() as one, Scripted() as two:
        client = connect({one.address: 3, two.address: 1})
        found = Counter(int(client.infer()["who"][0]) for _ in range(40))
    assert found == {one.port: 30, two.port: 10}


def test_a_deadline_limits_all_tries_together(connect):
    with Scripted(5.0, 5.0) as server:
        client = connect(server.address, timeout=0.2, retry=QUICK)
        with pytest.raises(RequestTimeoutError):
            client.infer()
        assert server.served == 1
    with Scripted(*[503] * 1000) as server:
        retry = Retry(attempts=1000, first_s=0.02, max_s=0.02, reserve=1000)
        client = connect(server.address, timeout=0.3, retry=retry)
        began = time.monotonic()
        with pytest.raises(RequestTimeoutError):
            client.infer()
        assert time.monotonic() - began < 5


def test_a_slow_answer_is_hedged_elsewhere(connect):
    with Scripted(3.0) as slow, Scripted() as quick:
        client = connect([slow.address, quick.address], hedge_s=0.05)
        began = time.monotonic()
        assert client.infer()["who"] == quick.port
        assert time.monotonic() - began < 2.5
        assert (slow.served, quick.served) == (1, 1)


def test_many_requests_share_few_connections(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.001)

    async def many(address):
        async with AsyncHttpClient(address) as client:
            assert await client.ready()
            assert (await client.model_metadata("m")).name == "m"
            inputs = [X * at for at in range(50)]
            answers = await asyncio.gather(
                *(client.infer("m", {"x": x}) for x in inputs)
            )
        for x, answer in zip(inputs, answers, strict=True):
            np.testing.assert_allclose(
                answer["y"], small_models.linear(x), rtol=1e-4, atol=1e-5
            )

    with serve({"m": model}) as server:
        asyncio.run(many(server.http_address))
        with ClientPool(server.http_address) as pool, ThreadPoolExecutor(8) as threads:
            assert pool.ready()
            jobs = [threads.submit(pool.infer, "m", {"x": X * at}) for at in range(50)]
            for at, job in enumerate(jobs):
                np.testing.assert_allclose(
                    job.result()["y"], small_models.linear(X * at), rtol=1e-4, atol=1e-5
                )


def test_a_cancelled_request_leaves_no_half_read_connection(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.1)

    async def cancel_one(address):
        async with AsyncHttpClient(address) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.infer("m", {"x": X * 5}), 0.02)
            answer = await client.infer("m", {"x": X})
            np.testing.assert_allclose(answer["y"], small_models.linear(X), rtol=1e-5)

    with serve({"m": model}) as server:
        asyncio.run(cancel_one(server.http_address))


def test_servers_with_keys_certificates_and_unix_sockets(serve, tmp_path, connect):
    model = small_models.write_linear(tmp_path / "m.linear")
    authority = Authority(tmp_path)
    trusted = ssl.create_default_context(cafile=str(authority.path))
    keys = tmp_path / "keys"
    keys.write_text(f"ann sha256:{hashlib.sha256(b'secret').hexdigest()}\n")
    files = TlsFiles(*authority.issue("server"))
    socket_path = tmp_path / "http.sock"
    options = {"api_keys": keys, "tls": files, "http_socket": socket_path}
    with serve({"m": model}, **options) as server:
        for address in (server.http_address, f"unix:{socket_path}"):
            tls = trusted if address == server.http_address else None
            client = connect(address, tls=tls, api_key="secret")
            for _ in range(2):
                y = client.infer()["y"]
                np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
            with pytest.raises(UnauthenticatedError, match="needs an API key"):
                connect(address, tls=tls).infer()


def test_addresses_and_times_must_be_such():
    with pytest.raises(InvalidRequestError, match="must have addresses"):
        ClientPool([])
    with pytest.raises(InvalidRequestError, match="weights above 0"):
        ClientPool({"a:1": 0})
    for kind in (HttpClient, ClientPool, AsyncHttpClient):
        for address in ("http://a:1", "a", "a:b", ":1", "a:65536", "unix:", "a:1/v2"):
            with pytest.raises(InvalidRequestError, match="must be host:port or unix"):
                kind(address)
    with pytest.raises(InvalidRequestError, match="must be positive"):
        Retry(attempts=0)


def test_a_server_that_failed_rests_unless_all_did():
    spread = Spread(["a:1", "b:1"], Retry())
    spread.failed("a:1")
    assert {spread.next() for _ in range(4)} == {"b:1"}
    spread.failed("b:1")
    assert {spread.next() for _ in range(4)} == {"a:1", "b:1"}
    assert spread.next("a:1") == "b:1"
