"""KServe's own client, unmodified: REST of both protocols, and gRPC."""

import asyncio

import numpy as np
import pytest
import small_models

pytest.importorskip("kserve", reason="its client needs an older protobuf")
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

X = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def kserved(serve, tmp_path_factory):
    path = small_models.write_linear(tmp_path_factory.mktemp("k") / "m.linear")
    with serve({"m": path}, v1=True) as running:
        yield running


def request(binary):
    tensor = InferInput("x", list(X.shape), "FP32")
    tensor.set_data_from_numpy(X, binary_data=binary)
    return InferRequest("m", [tensor], request_id="r1")


def check(response):
    outputs = {held.name: held.as_numpy() for held in response.outputs}
    np.testing.assert_allclose(
        outputs["y"].reshape(3, 3), small_models.linear(X), rtol=1e-5
    )
    assert outputs["label"].tolist() == small_models.linear(X).argmax(1).tolist()
    assert response.id == "r1"


def test_rest_of_version_1(kserved):
    url = f"http://{kserved.http_address}"

    async def talk():
        async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
            assert await client.is_server_live(url)
            assert await client.is_model_ready(url, "m")
            return await client.infer(url, {"instances": X.tolist()}, model_name="m")

    answer = asyncio.run(talk())
    y = [row["y"] for row in answer["predictions"]]
    np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)


@pytest.mark.parametrize("binary", [False, True])
def test_rest_of_version_2(kserved, binary):
    url = f"http://{kserved.http_address}"

    async def talk():
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            assert await client.is_server_live(url) is True
            assert await client.is_server_ready(url) is True
            assert await client.is_model_ready(url, "m") is True
            assert await client.is_model_ready(url, "absent") is False
            return await client.infer(url, request(binary), model_name="m")

    check(asyncio.run(talk()))


def test_grpc(kserved):
    async def talk():
        async with InferenceGRPCClient(kserved.grpc_address) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("m")
            return await client.infer(request(True))

    check(asyncio.run(talk()))
