"""A small network is trained, compressed, exported and served, on real digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import datasets

import proa
import proa_slim as slim
from proa import nn
from proa.static import InputSpec


@pytest.fixture(scope="module")
def digits():
    x, y = datasets.load_digits(return_X_y=True)
    x = (x / 8 - 1).astype(np.float32)
    return x[:1400], y[:1400], x[1400:], y[1400:]


@pytest.fixture(scope="module")
def trained(digits):
    proa.seed(1)
    x, y, test_x, test_y = digits
    network = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    model = proa.Model(network)
    model.prepare(
        proa.optimizer.Adam(learning_rate=5e-3, parameters=network.parameters()),
        nn.CrossEntropyLoss(),
        proa.metric.Accuracy(),
    )
    data = proa.io.TensorDataset([x, y])
    model.fit(data, batch_size=64, epochs=12, verbose=0)
    result = model.evaluate(proa.io.TensorDataset([test_x, test_y]), verbose=0)
    assert result["acc"] > 0.9
    network.eval()
    return network


def accuracy(logits, labels):
    return (np.asarray(logits).argmax(1) == labels).mean()


def test_both_calibrations_and_training_keep_the_accuracy(trained, digits):
    x, y, test_x, test_y = digits
    spec = [InputSpec([None, 64], "float32", "x")]
    with proa.no_grad():
        exact = accuracy(trained(proa.to_tensor(test_x)).numpy(), test_y)
    batches = [x[i : i + 100] for i in range(0, 1000, 100)]
    for observer in ("abs_max", "kl", "moving_average"):
        model = slim.quant_post_static(
            trained, spec, batches, slim.QuantConfig(observer)
        )
        assert accuracy(model(test_x), test_y) > exact - 0.02
        assert len(model.report) == 2
        assert all(layer.sqnr_db > 15 for layer in model.report)
    qat = slim.QAT()
    student = qat.quantize(trained)
    model = proa.Model(student)
    model.prepare(
        proa.optimizer.Adam(learning_rate=1e-3, parameters=student.parameters()),
        nn.CrossEntropyLoss(),
    )
    model.fit(proa.io.TensorDataset([x, y]), batch_size=64, epochs=1, verbose=0)
    student.eval()
    converted = qat.convert(student, spec)
    with proa.no_grad():
        faked = student(proa.to_tensor(test_x)).numpy()
    np.testing.assert_allclose(converted(test_x), faked, rtol=1e-3, atol=2e-2)
    assert accuracy(converted(test_x), test_y) > exact - 0.02


def test_a_served_model_answers_as_the_network_does(trained, digits, tmp_path):
    from proa_serving.app import BackgroundServer
    from proa_serving.client import GrpcClient, HttpClient
    from proa_serving.config import ModelSource, ServerConfig

    path = tmp_path / "digits.proa"
    proa.jit.save(trained, str(path), [InputSpec([None, 64], "float32", "x")])
    x = digits[2][:20]
    with proa.no_grad():
        want = trained(proa.to_tensor(x)).numpy()
    config = ServerConfig(
        models=(ModelSource("digits", path),), http_port=0, grpc_port=0
    )
    with BackgroundServer(config) as server:
        for client in (
            HttpClient(server.http_address),
            GrpcClient(server.grpc_address),
        ):
            (got,) = client.infer("digits", {"x": x}).as_dict().values()
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
