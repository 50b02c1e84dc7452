"""Versions share requests by weight, key and header; a shadow is compared."""

import http.client
import json
import time
from collections import Counter

import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import InvalidRequestError

X = np.ones((2, 4), np.float32)


def repository(tmp_path, text):
    for version in (1, 2, 3):
        small_models.write_linear(
            tmp_path / "m" / str(version) / "model.linear", scale=version
        )
    (tmp_path / "m" / "config.toml").write_text(text)
    return tmp_path


def versions_of(client, count, **options):
    return Counter(client.infer("m", {"x": X}, **options).version for _ in range(count))


@pytest.mark.feature("L667")
@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_requests_are_split_by_weight(serve, tmp_path, kind):
    """1000 requests with shares of 3 to 1, within six standard deviations."""
    repository(tmp_path, "[traffic]\nweights = {1 = 3, 2 = 1}")
    with serve(repository=tmp_path, model_control=True) as server:
        address = server.http_address if kind is HttpClient else server.grpc_address
        with kind(address) as client:
            found = versions_of(client, 1000)
            assert found.keys() == {"1", "2"}
            assert abs(found["1"] - 750) < 6 * (1000 * 0.75 * 0.25) ** 0.5
            # Each answer is that of the version it names.
            for _ in range(20):
                answer = client.infer("m", {"x": X})
                want = int(answer.version) * small_models.linear(X)
                np.testing.assert_allclose(answer["y"], want, rtol=1e-5)
            assert versions_of(client, 5, version="2") == {"2": 5}
            # New weights, while it runs.
            repository(tmp_path, "[traffic]\nweights = {1 = 0, 2 = 1}")
            client.load_model("m")
            assert versions_of(client, 20) == {"2": 20}


def test_a_key_always_goes_to_one_version_and_keys_are_split(serve, tmp_path):
    repository(tmp_path, '[traffic]\nweights = {1 = 1, 2 = 1}\nsticky = "user"')
    with (
        serve(repository=tmp_path) as server,
        HttpClient(server.http_address) as client,
    ):
        chosen = Counter()
        for user in range(100):
            found = versions_of(client, 4, parameters={"user": f"u{user}"})
            assert len(found) == 1
            chosen += found
        assert 100 < chosen["1"] < 300
    with serve(repository=tmp_path) as server, GrpcClient(server.grpc_address) as other:
        # Another server, and another protocol, choose the same.
        again = Counter()
        for user in range(100):
            again += versions_of(other, 4, parameters={"user": f"u{user}"})
        assert again == chosen


def post(address, headers):
    connection = http.client.HTTPConnection(address)
    body = json.dumps(
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}
            ]
        }
    )
    connection.request("POST", "/v2/models/m/infer", body, headers)
    answer = connection.getresponse()
    held = json.loads(answer.read())
    connection.close()
    return answer.status, held


def test_a_header_names_the_version(serve, tmp_path):
    repository(tmp_path, '[traffic]\nweights = {1 = 1, 2 = 0}\nheader = "X-Version"')
    with serve(repository=tmp_path) as server:
        for named, got in (("2", "2"), ("1", "1"), (None, "1")):
            headers = {} if named is None else {"X-Version": named}
            status, held = post(server.http_address, headers)
            assert (status, held["model_version"]) == (200, got)
        status, held = post(server.http_address, {"X-Version": "9"})
        assert status == 400
        assert "x-version must be one of ['1', '2'], got '9'" in held["error"]
        with GrpcClient(server.grpc_address) as client:
            options = {"parameters": {"x-version": "2"}}
            assert client.infer("m", {"x": X}, **options).version == "2"
            with pytest.raises(InvalidRequestError):
                client.infer("m", {"x": X}, parameters={"x-version": "3"})


def report_of(address):
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/v2/models/m/shadow")
    answer = connection.getresponse()
    held = json.loads(answer.read())
    connection.close()
    return answer.status, held


def test_a_shadow_is_compared_and_never_answers(serve, tmp_path):
    repository(tmp_path, '[traffic]\nweights = {1 = 1}\nshadow = "2"')
    with serve(repository=tmp_path) as server:
        with HttpClient(server.http_address) as client:
            assert versions_of(client, 20) == {"1": 20}
        end = time.monotonic() + 10
        while True:
            status, held = report_of(server.http_address)
            if held["compared"] + held["left_out"] == 20:
                break
            assert time.monotonic() < end
            time.sleep(0.01)
    assert status == 200
    assert (held["version"], held["failures"]) == ("2", 0)
    largest = float(np.abs(small_models.linear(X)).max())  # twice as much, less itself
    y = held["outputs"]["y"]
    assert y["max_abs_difference"] == pytest.approx(largest, rel=1e-5)
    assert y["equal"] == 0
    assert y["same_argmax"] == y["rows"] == 2 * held["compared"]
    assert held["outputs"]["label"]["equal"] == held["compared"]


def test_a_shadow_that_fails_fails_alone(serve, tmp_path):
    repository(tmp_path, '[traffic]\nweights = {1 = 1}\nshadow = "2"')
    (tmp_path / "m" / "2" / "model.linear").unlink()
    (tmp_path / "m" / "2" / "model.py").write_text(
        "inputs = [('x', 'FP32', (-1, 4))]\noutputs = [('y', 'FP32', (-1, 4))]\n"
        "def run(inputs):\n    raise ValueError('not yet')\n"
    )
    with serve(repository=tmp_path, python_models=True) as server:
        with HttpClient(server.http_address) as client:
            assert versions_of(client, 3) == {"1": 3}
        end = time.monotonic() + 10
        while not report_of(server.http_address)[1]["failures"]:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_model_without_a_shadow_says_so(serve, tmp_path):
    repository(tmp_path, "")
    with serve(repository=tmp_path) as server:
        status, held = report_of(server.http_address)
    assert status == 404
    assert "has no shadow" in held["error"]
