"""The command as a process: it starts, says where, ends in order, or says why not."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import small_models
from server_process import PROGRAM, Process

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import UnavailableError

X = np.ones((2, 4), np.float32)


@pytest.mark.feature("L666")
def test_one_command_starts_a_service(tmp_path):
    one = small_models.write_linear(tmp_path / "one.linear")
    two = small_models.write_linear(tmp_path / "two.linear", scale=2)
    with Process(one, f"other={two}", "--http", 0, "--grpc", 0) as process:
        assert "models=one,other" in process.line
        for client in (HttpClient(process.http), GrpcClient(process.grpc)):
            with client:
                for name, scale in (("one", 1), ("other", 2)):
                    y = client.infer(name, {"x": X})["y"]
                    want = scale * small_models.linear(X)
                    np.testing.assert_allclose(y, want, rtol=1e-5)
        process.held.send_signal(signal.SIGINT)
        assert process.end() == 0


def test_a_server_without_grpc_does_not_import_it(tmp_path):
    small_models.write_linear(tmp_path / "m.linear")
    code = (
        "import sys, small_models; small_models.register(); "
        "from proa_serving.app import BackgroundServer, ServerConfig; "
        "from proa_serving.config import ModelSource; "
        "source = ModelSource.parse('m.linear'); "
        "held = BackgroundServer(ServerConfig(models=(source,), http_port=0)); "
        "held.__enter__(); held.stop(); "
        "assert 'grpc' not in sys.modules and 'google.protobuf' not in sys.modules"
    )
    path = filter(None, [os.environ.get("PYTHONPATH")])
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAM.parent), *path])},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_in_flight_finish(tmp_path, number):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.6)
    with Process(model, "--http", 0, "--grpc", 0, "--max-batch", 1) as process:
        answers, clients = [], []
        for kind, address in ((HttpClient, process.http), (GrpcClient, process.grpc)):
            client = kind(address)
            assert client.live()
            clients.append(client)

        def infer_once(client):
            answers.append(client.infer("m", {"x": X})["y"])

        threads = [
            threading.Thread(target=infer_once, args=(held,)) for held in clients
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        process.held.send_signal(number)
        time.sleep(0.2)
        with pytest.raises(UnavailableError):
            HttpClient(process.http).infer("m", {"x": X})
        for thread in threads:
            thread.join(20)
        assert process.end() == 0
        assert len(answers) == 2
        for y in answers:
            np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-6)


SLOW_TO_LOAD = """
import pathlib, time

with pathlib.Path(__file__).with_name("loads").open("a") as held:
    held.write("1")
time.sleep({seconds})
inputs = outputs = [("x", "FP32", (-1, 4))]


def run(inputs):
    return inputs
"""


def write_slow_to_load(folder, seconds):
    """A Python model that takes so long to load; the file that counts its loads."""
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(SLOW_TO_LOAD.format(seconds=seconds))
    return folder / "loads"


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("ready", [False, True])
def test_a_signal_does_not_wait_for_a_model_that_is_being_loaded(tmp_path, ready):
    root, place = tmp_path / "models", tmp_path / "s"
    loads = root / "late" / "1" / "loads"
    if ready:
        root.mkdir()
    else:
        write_slow_to_load(root / "late" / "1", 600)
    model = small_models.write_linear(tmp_path / "m.linear")
    options = ("--repository", root, "--python-models", "--poll", 0.05)
    command = (sys.executable, PROGRAM, model, *options, "--http-socket", place)
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            if ready:
                assert process.stdout.readline().startswith("proa-serve ready")
                write_slow_to_load(root / "late" / "1", 600)
            wait_for(loads.exists)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            log = process.communicate(timeout=30)[1]
            assert process.returncode == 0
            assert time.monotonic() - began < 5
        finally:
            process.kill()
    assert "ending while a model is being loaded" in log
    assert "Traceback" not in log
    assert not place.exists()


def test_a_python_file_is_run_once(tmp_path):
    loads = write_slow_to_load(tmp_path / "m" / "1", 0)
    options = ("--repository", tmp_path, "--python-models", "--http", 0)
    with Process(*options) as process, HttpClient(process.http) as client:
        np.testing.assert_array_equal(client.infer("m", {"x": X})["x"], X)
    assert loads.read_text() == "1"


def test_the_grace_time_is_a_bound(tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=20)
    with Process(model, "--http", 0, "--grpc", 0, "--grace", 0.5) as process:
        errors = []

        def infer_once(client):
            with pytest.raises(UnavailableError) as caught:
                client.infer("m", {"x": X})
            errors.append(caught.value)

        clients = (HttpClient(process.http), GrpcClient(process.grpc))
        threads = [
            threading.Thread(target=infer_once, args=(held,)) for held in clients
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        began = time.monotonic()
        process.held.send_signal(signal.SIGTERM)
        assert process.end() == 1
        assert time.monotonic() - began < 8
        assert "not finished in 0.5 s" in process.stderr
        for thread in threads:
            thread.join(20)
        assert len(errors) == 2


@pytest.mark.parametrize("option", ["--http", "--grpc"])
def test_a_port_in_use_is_reported(tmp_path, option):
    model = small_models.write_linear(tmp_path / "m.linear")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Process(model, option, port) as process:
            assert process.end() == 1
        assert f"127.0.0.1:{port}" in process.stderr
        assert "port in use" in process.stderr
        assert "Traceback" not in process.stderr


def test_two_servers_never_share_a_grpc_port(tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with Process(model, "--grpc", 0) as first:
        port = first.grpc.rpartition(":")[2]
        with Process(model, "--grpc", port) as second:
            assert second.end() == 1
            assert "port in use" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "must name a model or a repository"),
        (["absent.linear"], "expected a file, got absent.linear"),
        (["{tmp}/bad.linear"], "must be a linear model"),
        (["{tmp}/bad.txt"], r"must end in \.proa"),
        (["--repository", "{tmp}/nowhere"], "expected a folder"),
        (["--repository", "{tmp}/empty"], "expected at least one model"),
        (["{tmp}/bad.linear", "bad={tmp}/x.linear"], "names must differ"),
        (["a/b=x.linear"], "must be letters, digits"),
        (["{tmp}/bad.linear", "--instances", "0"], "instances must be at least 1"),
        (["{tmp}/bad.linear", "--otlp", "host:4318"], "must be a URL of http"),
        (["{tmp}/bad.linear", "--timeline", "{tmp}/no/t"], "cannot be written"),
        (["{tmp}/bad.linear", "--cors-origin", "https://a.b/"], "without a path, got"),
        (
            ["{tmp}/bad.linear", "--max-request-mib", "600"],
            "max_in_flight_bytes must be at least max_request_bytes, 629145600",
        ),
    ],
)
def test_a_failed_start_reports_the_reason(tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.linear").write_text("{")
    (tmp_path / "bad.txt").write_text("")
    filled = [text.format(tmp=tmp_path) for text in arguments]
    with Process(*filled, "--http", 0) as process:
        assert process.end() == 1
    assert re.search(message, process.stderr)
    assert "Traceback" not in process.stderr
    assert "Task was destroyed" not in process.stderr


@pytest.mark.parametrize("port", ["web", "-1", "65536", "8000.0"])
def test_a_port_that_is_none_is_reported(port):
    with Process("--http", port) as process:
        assert process.end() == 2
    text = f"argument --http/--http_port: port must be 0 to 65535, got {port}"
    assert text in process.stderr or "expected one argument" in process.stderr
