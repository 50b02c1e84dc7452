"""What is done with an imported model: trained further, compressed and served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa_slim
from proa.cli import main
from proa_inference import Config, create_predictor
from proa_serving.app import BackgroundServer
from proa_serving.client import GrpcClient, HttpClient
from proa_serving.config import ModelSource, ServerConfig

pytestmark = pytest.mark.full

pytest.importorskip("onnx")

from .models import MODELS, Array, model_file, text_line  # noqa: E402

LINES = MODELS["text-direction"]


def lines(count: int, seed: int) -> tuple[Array, Array]:
    """Lines of letters, and whether each is upside down."""
    rng = np.random.default_rng(seed)
    found, is_down = [], rng.integers(0, 2, count)
    for down in is_down:
        text = "".join(map(chr, rng.integers(97, 123, 10))).capitalize()
        line = text_line(192, 48, text)
        found.append(line[:, :, ::-1, ::-1] if down else line)
    return np.concatenate(found).astype(np.float32), is_down


def accuracy(run: Any, x: Array, labels: Array) -> float:
    with proa.no_grad():
        found = run(proa.to_tensor(x)).numpy()
    return float((found.argmax(1) == labels).mean())


def test_an_imported_model_learns_another_task(tmp_path: Path) -> None:
    layer = proa.onnx.load(model_file(LINES, tmp_path))
    x, is_down = lines(16, 0)
    labels = 1 - is_down  # what the model has always taken for the other class
    assert accuracy(layer, x, labels) < 0.1
    assert len(layer.parameters()) > 50
    adam = proa.optimizer.Adam(1e-3, parameters=layer.parameters())
    losses = []
    for _ in range(20):
        probability = layer(proa.to_tensor(x))
        chosen = proa.take_along_axis(probability, proa.to_tensor(labels[:, None]), 1)
        loss = -proa.log(chosen + 1e-6).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0]
    assert accuracy(layer, x, labels) > 0.9


def test_an_imported_model_is_quantized_and_served(tmp_path: Path) -> None:
    path = model_file(LINES, tmp_path)
    layer = proa.onnx.load(path)
    x, is_down = lines(24, 1)
    exact = accuracy(layer, x, is_down)
    batches = [lines(8, seed)[0] for seed in (2, 3)]
    config = proa_slim.QuantConfig(activation="moving_average")
    model = proa_slim.quant_post_static(layer, layer.input_spec, batches, config)
    small, whole = tmp_path / "small.proa", tmp_path / "whole.proa"
    model.save(str(small))
    assert main(["convert", str(path), str(whole)]) == 0
    assert small.stat().st_size < 0.5 * whole.stat().st_size
    (found,) = create_predictor(Config(str(small))).run([x])
    assert (found.argmax(1) == is_down).mean() > exact - 0.1
    sources = ModelSource("whole", whole), ModelSource("small", small)
    serving = ServerConfig(models=sources, http_port=0, grpc_port=0)
    with proa.no_grad():
        wanted = {"whole": layer(proa.to_tensor(x)).numpy(), "small": found}
    with BackgroundServer(serving) as server:
        for client in (
            HttpClient(server.http_address), GrpcClient(server.grpc_address),
        ):  # fmt: skip
            for name, want in wanted.items():
                (got,) = client.infer(name, {"x": x}).as_dict().values()
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
