"""One int8 network of real images gives the same bits in training, in every runtime and
in a server's process, and the same classes in onnxruntime.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from fashion_network import SEEDS, mobile_net, train, trained
from numpy.typing import NDArray
from sklearn import datasets

import proa
import proa_inference
import proa_lite
import proa_slim as slim
from proa import nn
from proa.static import InputSpec
from proa_serving.client import GrpcClient, HttpClient

from .server_process import server

SPEC = [InputSpec([None, 1, 24, 24], "float32", "x")]
FASHION = [InputSpec([None, 1, 28, 28], "float32", "x")]
Images = NDArray[np.float32]


@pytest.fixture(scope="module")
def digits() -> tuple[Images, NDArray[np.int64]]:
    """1,797 images of handwritten digits, three times as large."""
    x, y = datasets.load_digits(return_X_y=True)
    x = x.reshape(-1, 1, 8, 8) / 8 - 1
    return x.repeat(3, 2).repeat(3, 3).astype(np.float32), y.astype(np.int64)


@pytest.fixture(scope="module")
def network(digits: tuple[Images, NDArray[np.int64]]) -> nn.Layer:
    """A MobileNet of five blocks that has learned them."""
    proa.seed(0)
    net: nn.Layer = mobile_net()
    train(net, *digits, epochs=12)
    return net


def calibrated(net: nn.Layer, x: Images) -> tuple[slim.QuantizedModel, None]:
    return slim.quant_post_static(net, SPEC, np.split(x[:512], 4)), None


def trained_with_rounding(
    net: nn.Layer, x: Images
) -> tuple[slim.QuantizedModel, nn.Layer]:
    qat = slim.QAT()
    student = qat.quantize(net, SPEC)
    student.train()
    for batch in np.split(x[:512], 8):
        student(proa.to_tensor(batch))
    student.eval()
    return qat.convert(student, SPEC), student


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("make", [calibrated, trained_with_rounding])
def test_what_was_evaluated_is_what_is_served_bit_for_bit(
    network: nn.Layer,
    digits: tuple[Images, NDArray[np.int64]],
    make,
    compressed: bool,
    tmp_path: Path,
) -> None:
    x, y = digits
    model, student = make(network, x)
    ops = [node.op for node in model.program.main.nodes]
    assert not {"conv2d", "conv2d_act", "linear"} & set(ops)
    want = model(x)
    exact = network(proa.to_tensor(x)).numpy()
    assert (want.argmax(1) == y).mean() >= (exact.argmax(1) == y).mean() - 0.003
    if student is not None:
        assert student(proa.to_tensor(x)).numpy().tobytes() == want.tobytes()
    path = tmp_path / "net.proa"
    model.save(path, compressed)
    for optimized in (True, False):
        config = proa_inference.Config(path)
        config.switch_ir_optim(optimized)
        inference = proa_inference.create_predictor(config)
        assert inference.run([x])[0].tobytes() == want.tobytes()
    lite = proa_lite.create_predictor(proa_lite.Config(path))
    assert lite.run([x])[0].tobytes() == want.tobytes()
    with server(path) as (http, grpc):
        for client in (HttpClient(http), GrpcClient(grpc)):
            with client:
                (got,) = client.infer("net", {"x": x[:500]}).as_dict().values()
            assert got.tobytes() == want[:500].tobytes()


def agreement(model: slim.QuantizedModel, x: Images, spec: list, folder: Path) -> float:
    """Share of the images that onnxruntime and lite put into the same class."""
    ort = pytest.importorskip("onnxruntime")
    model.save(folder / "net.proa")
    int8 = proa.jit.load(str(folder / "net.proa"))
    proa.onnx.export(int8, folder / "net.onnx", spec, opset_version=17)
    session = ort.InferenceSession(
        folder / "net.onnx", providers=["CPUExecutionProvider"]
    )
    lite = proa_lite.create_predictor(proa_lite.Config(folder / "net.proa"))
    same = []
    for batch in np.array_split(x, 10):
        (found,) = session.run(None, {"x": batch})
        same.append(found.argmax(1) == lite.run([batch])[0].argmax(1))
    return float(np.concatenate(same).mean())


@pytest.mark.parametrize("make", [calibrated, trained_with_rounding])
def test_onnxruntime_finds_the_same_classes(
    network: nn.Layer, digits: tuple[Images, NDArray[np.int64]], make, tmp_path: Path
) -> None:
    model, _ = make(network, digits[0])
    assert agreement(model, digits[0], SPEC, tmp_path) >= 0.995


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_onnxruntime_finds_the_same_classes_of_10000_images(
    seed: int, tmp_path: Path
) -> None:
    fashion = trained(seed, Path(os.environ.get("PROA_DATA_HOME") or tmp_path))
    batches = np.split(fashion.train_x[:1024], 8)
    model = slim.quant_post_static(fashion.network, FASHION, batches)
    assert agreement(model, fashion.test_x, FASHION, tmp_path) >= 0.995
