"""Versions come and go while requests run, and none of them is lost."""

import signal
import threading
import time

import numpy as np
import pytest
import small_models
from prometheus_client.parser import text_string_to_metric_families
from server_process import Process
from steady_load import SteadyLoad

from proa_serving.backends.registry import register_backend
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import ModelLoadError, NotFoundError
from proa_serving.protocol.messages import TensorSpec

X = np.ones((1, 4), np.float32)


def write(folder, version, scale, name="m"):
    return small_models.write_linear(
        folder / name / str(version) / "model.linear", scale=scale
    )


def scale_of(client, version="", name="m"):
    y = client.infer(name, {"x": X}, version=version)["y"]
    return float((y / small_models.linear(X)).mean().round(3))


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("said", "served"),
    [
        ("", ["10"]),
        ('versions = "all"', ["1", "2", "10"]),
        ("versions = {latest = 2}", ["2", "10"]),
        ("versions = [1, 2]", ["1", "2"]),
    ],
)
def test_the_policy_chooses_versions(serve, tmp_path, said, served):
    for version in (1, 2, 10):
        write(tmp_path, version, version)
    (tmp_path / "m" / "config.toml").write_text(said)
    with (
        serve(repository=tmp_path) as server,
        HttpClient(server.http_address) as client,
    ):
        assert list(client.model_metadata("m").versions) == served
        assert scale_of(client) == float(served[-1])
        for version in served:
            assert scale_of(client, version) == float(version)
        with pytest.raises(NotFoundError):
            scale_of(client, "7")


def test_polling_finds_new_changed_and_removed_models(serve, tmp_path):
    write(tmp_path, 1, 1)
    with (
        serve(repository=tmp_path, poll_s=0.05) as server,
        HttpClient(server.http_address) as client,
    ):
        assert scale_of(client) == 1
        write(tmp_path, 2, 2)
        wait_for(lambda: scale_of(client) == 2)
        write(tmp_path, 2, 3)  # the same version, another content
        wait_for(lambda: scale_of(client) == 3)
        write(tmp_path, 1, 5, name="other")
        wait_for(lambda: client.model_ready("other"))
        for file in (tmp_path / "other" / "1").iterdir():
            file.unlink()
        (tmp_path / "other" / "1").rmdir()
        (tmp_path / "other").rmdir()
        wait_for(lambda: not client.model_ready("other"))


def test_a_damaged_new_version_leaves_the_old_one_and_says_why(serve, tmp_path):
    write(tmp_path, 1, 1)
    with (
        serve(repository=tmp_path, poll_s=0.05, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        bad = tmp_path / "m" / "2" / "model.linear"
        bad.parent.mkdir()
        bad.write_text("{")
        wait_for(lambda: len(client.repository_index()) == 2)
        good, failed = client.repository_index()
        assert (good.version, good.state) == ("1", "READY")
        assert (failed.version, failed.state) == ("2", "UNAVAILABLE")
        assert "must be a linear model" in failed.reason
        assert scale_of(client) == 1
        with pytest.raises(ModelLoadError, match="must be a linear model"):
            client.load_model("m")
        assert scale_of(client) == 1
        write(tmp_path, 2, 2)
        wait_for(lambda: scale_of(client) == 2)
        assert [line.version for line in client.repository_index()] == ["2"]


def test_a_settings_file_that_is_wrong_leaves_what_serves(serve, tmp_path):
    write(tmp_path, 1, 1)
    with (
        serve(repository=tmp_path, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        (tmp_path / "m" / "config.toml").write_text("max_batch = -1")
        with pytest.raises(ModelLoadError, match="max_batch must be at least 1"):
            client.load_model("m")
        assert scale_of(client) == 1
        (line,) = client.repository_index()
        assert (line.version, line.state) == ("1", "READY")
        assert "max_batch must be at least 1" in line.reason
        (tmp_path / "m" / "config.toml").unlink()
        client.load_model("m")
        assert client.repository_index()[0].reason == ""


def test_no_request_is_lost_while_versions_change(serve, tmp_path):
    """Loads one version after another under constant requests of both protocols."""
    write(tmp_path, 1, 1)
    errors, answered, stop = [], [], threading.Event()

    def load_it(address, kind):
        with kind(address) as client:
            while not stop.is_set():
                try:
                    answered.append(scale_of(client))
                except Exception as error:
                    errors.append(error)

    with serve(repository=tmp_path, model_control=True) as server:
        threads = [
            threading.Thread(target=load_it, args=held)
            for held in [
                (server.http_address, HttpClient),
                (server.grpc_address, GrpcClient),
            ]
            * 2
        ]
        for thread in threads:
            thread.start()
        with HttpClient(server.http_address) as client:
            for version in range(2, 14):
                write(tmp_path, version, version)
                client.load_model("m")
                assert scale_of(client) == version
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert len(set(answered)) > 3


class SlowStart:
    """Its first run in each instance takes long, as packing weights does."""

    platform = "slow"
    inputs = (TensorSpec("x", "FP32", (-1, 4)),)
    outputs = (TensorSpec("ran", "INT64", (-1,)),)

    def instance(self):
        runs = 0

        def run(arrays):
            nonlocal runs
            runs += 1
            if runs == 1:
                time.sleep(0.2)
            return {"ran": np.full(len(arrays["x"]), runs)}

        return run

    def load(self, path, options):
        return self


def test_a_model_is_warm_before_its_first_request(serve, tmp_path):
    register_backend("slow", SlowStart)
    path = tmp_path / "m" / "1" / "model.slow"
    path.parent.mkdir(parents=True)
    path.write_text("")
    with (
        serve(repository=tmp_path) as server,
        GrpcClient(server.grpc_address) as client,
    ):
        assert client.infer("m", {"x": X})["ran"].tolist() == [2]
    (tmp_path / "m" / "config.toml").write_text("[[warmup]]\nrows = 3\ncount = 4\n")
    with (
        serve(repository=tmp_path) as server,
        GrpcClient(server.grpc_address) as client,
    ):
        assert client.infer("m", {"x": X})["ran"].tolist() == [5]
    (tmp_path / "m" / "config.toml").write_text("warmup = false")
    with (
        serve(repository=tmp_path) as server,
        GrpcClient(server.grpc_address) as client,
    ):
        assert client.infer("m", {"x": X})["ran"].tolist() == [1]


def test_a_warm_up_that_fails_keeps_a_model_out(serve, tmp_path):
    path = tmp_path / "m" / "1" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "inputs = [('x', 'FP32', (-1, 4))]\noutputs = [('y', 'FP32', (-1, 4))]\n"
        "def run(inputs):\n    raise ValueError('no license')\n"
    )
    (tmp_path / "m" / "config.toml").write_text("[[warmup]]\n")
    with pytest.raises(ModelLoadError, match=r"failed to warm up: no license"):
        serve(repository=tmp_path, python_models=True).__enter__()


def test_versions_that_are_gone_do_not_fill_the_metrics(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("proa_serving.metrics._MAX_MODELS", 3)
    write(tmp_path, 1, 1)
    with (
        serve(repository=tmp_path, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        for version in range(2, 12):
            write(tmp_path, version, version)
            client.load_model("m")
            scale_of(client)
        families = text_string_to_metric_families(client.metrics())
        versions = {
            sample.labels["version"]
            for family in families
            for sample in family.samples
            if sample.labels.get("model") == "m"
        }
    assert "11" in versions
    assert len(versions) <= 3


def reload_often(folder, count):
    """Replace a model ``count`` times under load; the process' memory after each."""
    write(folder, 1, 1)
    write(folder, 1, 1, name="other")
    resident = []
    with (
        Process("--repository", folder, "--model-control", "--http", 0) as process,
        SteadyLoad(lambda: HttpClient(process.http), scales=(1, 2), threads=2) as load,
        SteadyLoad(lambda: HttpClient(process.http), model="other", threads=1) as rest,
        HttpClient(process.http) as admin,
    ):
        for at in range(count):
            write(folder, 1, 1 + at % 2)
            admin.load_model("m")
            load.wait_for(2)
            rest.wait_for(1)
            resident.append(process.status("VmRSS"))
        load.stop()
        rest.stop()
        assert load.found.keys() == {"ok"}, load.found
        assert rest.found.keys() == {"ok"}, rest.found
        process.held.send_signal(signal.SIGTERM)
        assert process.end() == 0
    return resident


def test_a_model_that_is_replaced_often_fails_nobody(tmp_path):
    assert len(reload_often(tmp_path, 25)) == 25


@pytest.mark.full
def test_two_hundred_reloads_keep_no_memory(tmp_path):
    resident = reload_often(tmp_path, 220)
    assert max(resident[-20:]) < 1.05 * max(resident[:20])


def test_a_damaged_version_under_load_fails_nobody(tmp_path):
    """The old one keeps serving, and the index says why."""
    write(tmp_path, 1, 1)
    with (
        Process("--repository", tmp_path, "--poll", 0.05, "--http", 0) as process,
        SteadyLoad(lambda: HttpClient(process.http), threads=2) as load,
        HttpClient(process.http) as client,
    ):
        load.wait_for(20)
        bad = tmp_path / "m" / "2" / "model.linear"
        bad.parent.mkdir()
        bad.write_text("{")
        wait_for(lambda: len(client.repository_index()) == 2, 60)
        load.wait_for(20)
        good, failed = client.repository_index()
        assert (good.version, good.state) == ("1", "READY")
        assert "must be a linear model" in failed.reason
        load.stop()
        assert load.found.keys() == {"ok"}, load.found


def test_a_server_may_start_before_its_models_come(serve, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    with (
        serve(repository=folder, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        assert client.ready()
        assert client.repository_index() == []
        with pytest.raises(NotFoundError):
            client.infer("m", {"x": X})
        small_models.write_linear(folder / "m" / "1" / "model.linear")
        client.load_model("m")
        y = client.infer("m", {"x": X})["y"]
        np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
    small_models.write_linear(tmp_path / "later" / "m" / "1" / "model.linear")
    empty = tmp_path / "polled"
    empty.mkdir()
    with (
        serve(repository=empty, poll_s=0.05) as server,
        HttpClient(server.http_address) as client,
    ):
        assert client.ready()
        (tmp_path / "later" / "m").rename(empty / "m")
        end = time.monotonic() + 20
        while not client.repository_index(True) and time.monotonic() < end:
            time.sleep(0.02)
        y = client.infer("m", {"x": X})["y"]
        np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)


def test_a_server_without_models_that_none_can_reach_does_not_start(serve, tmp_path):
    with pytest.raises(NotFoundError, match="expected at least one model"):
        serve(repository=tmp_path).__enter__()
