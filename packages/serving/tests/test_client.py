"""Our own clients against our own server."""

import subprocess
import sys

import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import (
    ForbiddenError,
    InvalidRequestError,
    ModelFailedError,
    ModelLoadError,
    NotFoundError,
    RequestTimeoutError,
    UnavailableError,
)
from proa_serving.protocol.messages import TensorSpec

X = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    kind = {"http": HttpClient, "grpc": GrpcClient}[request.param]
    with kind(getattr(server, f"{request.param}_address")) as result:
        yield result


@pytest.mark.parametrize("binary", [True, False])
def test_infer(client, binary):
    result = client.infer("linear", {"x": X}, id="7", binary=binary)
    np.testing.assert_allclose(result["y"], small_models.linear(X), rtol=1e-6)
    assert (result.id, result.model, result.version) == ("7", "linear", "1")
    assert result["label"].dtype == np.int64


@pytest.mark.parametrize("binary", [True, False])
def test_strings(client, binary):
    text = {"text": np.array(["ab", "é"])}
    result = client.infer("text", text, outputs=["length"], binary=binary)
    assert result["length"].tolist() == [2, 2]


def test_bytes_that_are_no_text_do_not_fit_json(server):
    text = {"text": np.array(["é"])}
    with HttpClient(server.http_address) as client:
        assert client.infer("text", text)["back"].tolist() == ["é".encode()[::-1]]
        with pytest.raises(InvalidRequestError, match="requested as raw data"):
            client.infer("text", text, binary=False)


def test_health_and_metadata(client):
    assert client.live()
    assert client.ready()
    assert client.model_ready("linear")
    assert not client.model_ready("absent")
    assert client.server_metadata().name == "proa-serving"
    held = client.model_metadata("linear", "1")
    assert held.platform == "numpy_linear"
    assert held.inputs == (TensorSpec("x", "FP32", (-1, 4)),)
    assert [line.state for line in client.repository_index()] == ["READY"] * 3


def test_the_client_raises_the_errors_of_the_server(client):
    with pytest.raises(NotFoundError, match="absent"):
        client.infer("absent", {"x": X})
    with pytest.raises(InvalidRequestError, match="datatype must be FP32, got FP64"):
        client.infer("linear", {"x": X.astype(np.float64)})
    with pytest.raises(InvalidRequestError, match=r"inputs must be \['x'\]"):
        client.infer("linear", {"y": X})
    with pytest.raises(InvalidRequestError, match=r"inputs must be \['x'\], got \[\]"):
        client.infer("linear", {})
    with pytest.raises(ModelFailedError, match="got a NaN"):
        client.infer("linear", {"x": X * np.nan})
    with pytest.raises(ForbiddenError, match="--model-control"):
        client.unload_model("linear")
    assert client.infer("linear", {"x": X})["y"].shape == (6, 3)


def test_a_client_without_a_server():
    for kind in (HttpClient, GrpcClient):
        with kind("127.0.0.1:1") as client, pytest.raises(UnavailableError):
            client.infer("linear", {"x": X})


def test_a_late_answer_is_a_timeout(serve, tmp_path):
    slow = small_models.write_linear(tmp_path / "s.linear", sleep=0.5)
    with serve({"slow": slow}, timeout_s=0.1) as server:
        for client in (
            HttpClient(server.http_address),
            GrpcClient(server.grpc_address),
        ):
            with client, pytest.raises(RequestTimeoutError, match=r"within 0\.1 s"):
                client.infer("slow", {"x": X})
            with client, pytest.raises(RequestTimeoutError, match=r"within 0\.02 s"):
                GrpcClient(server.grpc_address).infer(
                    "slow", {"x": X}, parameters={"timeout": 20_000}
                )


def test_a_reload_that_fails_leaves_the_old_version(serve, tmp_path):
    path = small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    with (
        serve(repository=tmp_path, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        path.write_text("{")
        with pytest.raises(ModelLoadError, match="must be a linear model"):
            client.load_model("m")
        assert client.infer("m", {"x": X})["y"].shape == (6, 3)
        (line,) = client.repository_index()
        assert (line.version, line.state) == ("1", "READY")
        assert "must be a linear model" in line.reason
        client.unload_model("m")
        with pytest.raises(ModelLoadError):
            client.load_model("m")
        (line,) = client.repository_index()
        assert line.state == "UNAVAILABLE"
        assert "must be a linear model" in line.reason
        with pytest.raises(InvalidRequestError, match="must be letters"):
            client.load_model("..")


def test_a_failed_reload_is_logged_and_the_old_version_serves(serve, tmp_path, caplog):
    path = small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    with (
        serve(repository=tmp_path, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        path.write_text("{")
        with pytest.raises(ModelLoadError):
            client.load_model("m")
        (line,) = (r for r in caplog.records if r.levelname == "ERROR")
        assert "versions 1 keep serving: version 1: [load model" in line.message
        assert "must be a linear model" in line.message
        with pytest.raises(NotFoundError):
            client.load_model("absent")
        assert [entry.name for entry in client.repository_index()] == ["m"]
        np.testing.assert_allclose(
            client.infer("m", {"x": X})["y"], small_models.linear(X), rtol=1e-5
        )


def test_a_broken_model_does_not_keep_a_repository_from_starting(
    serve, tmp_path, caplog
):
    small_models.write_linear(tmp_path / "good" / "1" / "model.linear")
    broken = small_models.write_linear(tmp_path / "broken" / "1" / "model.linear")
    (tmp_path / "empty" / "1").mkdir(parents=True)
    broken.write_text("{")
    with (
        serve(repository=tmp_path, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        assert client.infer("good", {"x": X})["y"].shape == (6, 3)
        assert client.ready()
        lines = {entry.name: entry for entry in client.repository_index()}
        assert lines["good"].state == "READY"
        for name, reason in (("broken", "linear model"), ("empty", "VERSION/model")):
            assert lines[name].state == "UNAVAILABLE"
            assert reason in lines[name].reason
            logged = [r.message for r in caplog.records if f"model {name}" in r.message]
            assert len(logged) == 1
            assert reason in logged[0]
        with pytest.raises(UnavailableError, match="must be a linear model"):
            client.infer("broken", {"x": X})
        small_models.write_linear(broken)
        client.load_model("broken")
        assert client.infer("broken", {"x": X})["y"].shape == (6, 3)


def test_a_repository_whose_models_are_all_broken_does_not_start(serve, tmp_path):
    path = small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    path.write_text("{")
    with (
        pytest.raises(ModelLoadError, match="must be a linear model"),
        serve(repository=tmp_path),
    ):
        pass


def test_all_versions_of_a_repository(serve, tmp_path):
    for version in (1, 2, 10):
        file = tmp_path / "m" / str(version) / "model.linear"
        small_models.write_linear(file, scale=version)
    (tmp_path / "m" / "notes").mkdir()
    with (
        serve(repository=tmp_path, all_versions=True) as server,
        HttpClient(server.http_address) as client,
    ):
        assert client.model_metadata("m").versions == ("1", "2", "10")
        for version, scale in (("", 10), ("2", 2), ("1", 1)):
            y = client.infer("m", {"x": X}, version=version)["y"]
            np.testing.assert_allclose(y, scale * small_models.linear(X), rtol=1e-5)


def test_the_http_client_imports_neither_server_nor_grpc():
    code = (
        "import sys, proa_serving.client; "
        "heavy = {'grpc', 'httptools', 'prometheus_client', 'proa'}; "
        "heavy.add('proa_serving.app'); "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
