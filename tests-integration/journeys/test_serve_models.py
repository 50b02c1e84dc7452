"""Networks go from training, or from other frameworks' files, to a running server."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa_serving import save_for_serving
from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
)

SPEC = [InputSpec([None, 4], "float32", "x")]
X = np.random.default_rng(7).normal(size=(3, 4)).astype(np.float32)


def network(seed):
    proa.seed(seed)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    net.eval()
    return net


def by_numpy(net, x):
    """What the network computes, by NumPy."""
    first, second = net[0], net[2]
    hidden = np.maximum(x @ first.weight.numpy() + first.bias.numpy(), 0)
    return hidden @ second.weight.numpy() + second.bias.numpy()


def served(root, name="net", **options):
    config = ServerConfig(repository=root, http_port=0, grpc_port=0, **options)
    with BackgroundServer(config) as server:
        answers = []
        for client in (
            HttpClient(server.http_address),
            GrpcClient(server.grpc_address),
        ):
            with client:
                (spec,) = client.model_metadata(name).inputs
                (y,) = client.infer(name, {spec.name: X}).as_dict().values()
                answers.append(y)
    np.testing.assert_array_equal(*answers)
    return answers[0]


@pytest.mark.feature("L665")
@pytest.mark.feature("L674")
def test_a_network_is_saved_for_serving_from_training(tmp_path):
    net = network(1)
    loss = net(proa.to_tensor(X)).square().mean()
    loss.backward()
    step = proa.optimizer.SGD(0.1, parameters=net.parameters())
    step.step()
    step.clear_grad()
    first = save_for_serving(net, tmp_path, "net", SPEC, settings={"max_batch": 8})
    assert first == tmp_path / "net" / "1"
    held = json.loads((tmp_path / "net" / "config.json").read_text())
    assert held["max_batch"] == 8
    assert held["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert [spec["shape"] for spec in held["outputs"]] == [[-1, 2]]
    np.testing.assert_allclose(served(tmp_path), by_numpy(net, X), rtol=1e-5, atol=1e-6)
    # The next version, next to the first and under its settings.
    other = network(2)
    assert save_for_serving(other, tmp_path, "net", SPEC).name == "2"
    assert json.loads((tmp_path / "net" / "config.json").read_text()) == held
    np.testing.assert_allclose(
        served(tmp_path), by_numpy(other, X), rtol=1e-5, atol=1e-6
    )
    assert sorted(each.name for each in (tmp_path / "net").iterdir()) == [
        *("1", "2", "config.json")
    ]


@pytest.mark.feature("L675")
def test_the_wheel_brings_the_server_in_cpp_and_its_clients(tmp_path):
    """The command that was installed, with sockets and the engine in C++."""
    try:
        files = importlib.metadata.files("proa-serving") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs the wheels: a checkout has no command")
    assert any(file.match("proa_serving/_native.*.so") for file in files)
    save_for_serving(network(1), tmp_path, "net", SPEC)
    command = Path(sysconfig.get_path("scripts")) / "proa-serve"
    places = ["--repository", tmp_path, "--http", "0", "--grpc", "0"]
    with subprocess.Popen(
        [command, *places, "--engine", "native"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            ready = server.stdout.readline()
            http, grpc = re.findall(r"(?:http|grpc)=(\S+)", ready)
            for client in (HttpClient(http), GrpcClient(grpc)):
                with client:
                    for _ in range(3):
                        (y,) = client.infer("net", {"x": X}).as_dict().values()
                        want = by_numpy(network(1), X)
                        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
            mapped = Path(f"/proc/{server.pid}/maps").read_text()
            for library in ("proa_serving/_native", "proa/_core"):
                assert re.search(rf"/{library}\.\S*so$", mapped, re.MULTILINE)
            server.terminate()
            assert server.wait(30) == 0
        finally:
            server.kill()


def test_what_cannot_be_served_is_not_saved(tmp_path):
    net = network(1)
    save_for_serving(net, tmp_path, "net", SPEC)
    before = sorted((tmp_path / "net").rglob("*"))
    with pytest.raises(InvalidRequestError, match="version must be new"):
        save_for_serving(net, tmp_path, "net", SPEC, version=1)
    with pytest.raises(ModelLoadError, match="not known: max_bach"):
        save_for_serving(net, tmp_path, "net", SPEC, settings={"max_bach": 8})
    with pytest.raises(NotFoundError, match="expected a file"):
        save_for_serving(tmp_path / "absent.onnx", tmp_path, "net")
    wide = nn.Linear(5, 2)
    with pytest.raises(ModelLoadError, match=r"input x is FP32 \[-1, 5\]"):
        spec = [InputSpec([None, 5], "float32", "x")]
        save_for_serving(wide, tmp_path, "net", spec)
    assert sorted((tmp_path / "net").rglob("*")) == before


def test_an_onnx_model_is_served(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs proa[onnx]")
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(4, 2)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["h"]),
            onnx.helper.make_node("Tanh", ["h"], ["y"]),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    path = tmp_path / "net" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(model, str(path))
    np.testing.assert_allclose(served(tmp_path), np.tanh(X @ weight), rtol=1e-5)


def test_a_paddle_model_is_served(tmp_path):
    net = network(4)
    proa.interop.paddle.save(net, str(tmp_path / "inference"), SPEC)
    save_for_serving(tmp_path / "inference.pdmodel", tmp_path / "models", "net")
    y = served(tmp_path / "models")
    np.testing.assert_allclose(y, by_numpy(net, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("protocols", ["http", "http and grpc"])
def test_a_server_imports_what_it_needs_alone(tmp_path, protocols):
    save_for_serving(network(1), tmp_path, "net", SPEC)
    code = """
import sys, urllib.request
from pathlib import Path
from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.client import HttpClient
ports = {"http_port": 0} | ({"grpc_port": 0} if "grpc" in sys.argv[2] else {})
config = ServerConfig(repository=Path(sys.argv[1]), **ports)
with BackgroundServer(config) as server:
    client = HttpClient(server.http_address)
    assert client.model_ready("net")
    print(*sys.modules)
    address = f"http://{server.http_address}/metrics"
    assert b"proa_serve_requests_total" in urllib.request.urlopen(address).read()
    print(*sys.modules)
"""
    command = [sys.executable, "-c", code, str(tmp_path), protocols]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    imported, later = map(set, map(str.split, found.stdout.splitlines()))
    assert {"proa_inference.predictor", "proa_serving.http.app"} <= imported
    # Tools, the API of Paddle 1.x, training, other formats and protocols.
    assert not imported & {
        *("proa_inference.compare", "proa_inference.legacy"),
        *("proa_inference.mixed_precision", "proa.nn", "proa.jit", "proa.static"),
        *("proa.interop", "proa_serving.models.triton_config", "grpc"),
        *("opentelemetry", "cryptography", "PIL"),
        *("prometheus_client", "importlib.metadata"),
    }
    of_grpc = {"google.protobuf", "proa_serving.http2.connection"}
    assert imported & of_grpc == (of_grpc if "grpc" in protocols else set())
    assert "prometheus_client" in later
