"""A replica answers as a server does; Ray Serve starts several and spreads requests."""

import asyncio
import json
import os
import signal
import socket
import time

import numpy as np
import pytest
import small_models

from proa_serving.client import ClientPool, HttpClient, Retry
from proa_serving.config import ServerConfig
from proa_serving.protocol.errors import (
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.protocol.rest import HEADER_LENGTH, decode_response, encode_request
from proa_serving.ray_serve import Replica, deployment
from proa_serving.security.rate import RateLimit

X = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
# A model that needs no backend of the tests, which a worker of Ray does not have.
MODEL = """
import os

import numpy as np

inputs = [("x", "FP32", (-1, 4))]
outputs = [("y", "FP32", (-1, 4)), ("pid", "INT64", (-1,))]


def run(inputs):
    x = inputs["x"]
    return {"y": 2 * x + 1, "pid": np.full(len(x), os.getpid())}
"""


@pytest.fixture
def config(tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    return ServerConfig(repository=tmp_path, max_request_bytes=2**16, v1=True)


def send(replica, method, path, body=b"", headers=()):
    return replica.answer(method, path, headers, body)


def test_a_replica_answers_as_a_server_does(config):
    async def talk():
        replica = Replica(config)
        replica.check_health()
        request = InferRequest("m", [Tensor.of("x", X)], binary_output=True)
        body, size = encode_request(request, True)
        length = (HEADER_LENGTH.encode(), str(size).encode())
        reply = await send(replica, "POST", "/v2/models/m/infer", body, [length])
        assert reply.status == 200
        assert f"{len(reply.parts[0])}" in reply.headers
        data = b"".join(map(bytes, reply.parts))
        answer = decode_response(data, str(len(reply.parts[0])))
        np.testing.assert_allclose(answer["y"], small_models.linear(X), rtol=1e-5)
        rows = json.dumps({"instances": X.tolist()}).encode()
        reply = await send(replica, "POST", "/v1/models/m:predict", rows)
        y = [row["y"] for row in json.loads(reply.parts[0])["predictions"]]
        np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
        held = await replica.infer("m", {"x": X})
        np.testing.assert_allclose(held["y"], small_models.linear(X), rtol=1e-5)
        for method, path, data, status in (
            ("GET", "/v2/health/ready", b"", 200),
            ("GET", "/v2/models/absent", b"", 404),
            ("POST", "/v2/models/m/infer", b"{", 400),
            ("POST", "/v2/models/m/infer", bytes(2**16 + 1), 413),
        ):
            assert (await send(replica, method, path, data)).status == status
        with pytest.raises(NotFoundError):
            await replica.infer("absent", {"x": X})
        assert replica._service.budget.used == 0
        await replica.close()
        with pytest.raises(UnavailableError):
            replica.check_health()

    asyncio.run(talk())


def test_what_belongs_to_rays_proxy_is_refused(tmp_path):
    config = ServerConfig(repository=tmp_path, rate_limit=RateLimit.parse("1:2"))
    with pytest.raises(UnsupportedError, match="left to Ray's proxy"):
        Replica(config)


@pytest.mark.full
def test_ray_spreads_requests_over_replicas_and_replaces_one_that_dies(tmp_path):
    ray = pytest.importorskip("ray", reason="needs proa-serving[ray]")
    pytest.importorskip("ray.serve", reason="needs proa-serving[ray]")
    from ray import serve

    folder = tmp_path / "models" / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    config = ServerConfig(repository=tmp_path / "models", python_models=True)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    address = f"127.0.0.1:{port}"
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        options = {"num_replicas": 2, "ray_actor_options": {"num_cpus": 0.5}}
        handle = serve.run(deployment(config, **options).bind())
        held = handle.infer.remote("m", {"x": X}).result(timeout_s=60)
        np.testing.assert_allclose(held["y"], 2 * X + 1, rtol=1e-6)
        with HttpClient(address) as client:
            assert client.ready()
            pids = set()
            for _ in range(40):
                answer = client.infer("m", {"x": X})
                np.testing.assert_allclose(answer["y"], 2 * X + 1, rtol=1e-6)
                pids.add(int(answer["pid"][0]))
        assert len(pids) == 2
        os.kill(min(pids), signal.SIGKILL)
        retry = Retry(attempts=20, first_s=0.2, budget=1, reserve=100)
        found = set()
        end = time.monotonic() + 60
        with ClientPool(address, retry=retry) as pool:
            while len(found - pids) < 1 and time.monotonic() < end:
                found.add(int(pool.infer("m", {"x": X})["pid"][0]))
        assert found - pids, "the replica that died was not replaced"
    finally:
        serve.shutdown()
        ray.shutdown()
