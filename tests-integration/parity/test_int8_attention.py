"""Attention in int8 after calibration: near float32, and one result everywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import proa
import proa_lite
import proa_slim as slim
from proa import nn
from proa.static import InputSpec
from proa_inference import Config, create_predictor
from proa_inference.optimize import optimized_program

SPEC = [InputSpec([2, 20, 32], "float32", "x")]


def calibrated(
    network: nn.Layer, symmetric: bool
) -> tuple[slim.QuantizedModel, npt.NDArray[np.float32]]:
    """The network with linear layers and attention in int8, and an input."""
    network.eval()
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((2, 20, 32)).astype(np.float32) for _ in range(4)]
    config = slim.QuantConfig(
        activation="abs_max", symmetric=symmetric, ops=("linear", "attention")
    )
    return slim.quant_post_static(network, SPEC, batches, config), batches[0]


@pytest.mark.parametrize("symmetric", [True, False])
def test_attention_is_integers_between_its_products(
    tmp_path: Path, symmetric: bool
) -> None:
    proa.seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu")
    network = nn.TransformerEncoder(layer, 2)
    model, x = calibrated(network, symmetric)
    path = tmp_path / "net.int8.proa"
    model.save(path)
    nodes = list(optimized_program(Config(path)).nodes())
    ops = Counter(node.op for node in nodes)
    assert ops["attention_int8"] == 2 and ops["attention"] == 0
    made = [n for n in nodes if n.op == "attention_int8"]
    if symmetric:
        assert all(n.attrs["dtype"] == "int8" for n in made)
    (found,) = create_predictor(Config(path)).run([x])
    exact = network(proa.to_tensor(x)).numpy()
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    np.testing.assert_array_equal(model(x), found)
    # Layer norms add float32 in an order that the instruction set gives, which may be
    # another one in lite; the integers between them are the same.
    device = proa_lite.create_predictor(proa_lite.Config(str(path)))
    np.testing.assert_allclose(
        device.run([x])[0], found, rtol=1e-5, atol=1e-5 * np.abs(exact).max()
    )


@pytest.mark.parametrize("symmetric", [True, False])
def test_attention_alone_has_one_result_everywhere(
    tmp_path: Path, symmetric: bool
) -> None:
    proa.seed(0)
    network = nn.MultiHeadAttention(32, 4)
    model, x = calibrated(network, symmetric)
    path = tmp_path / "net.int8.proa"
    model.save(path)
    ops = Counter(node.op for node in optimized_program(Config(path)).nodes())
    assert ops["attention_int8"] == 1 and ops["attention"] == 0
    (found,) = create_predictor(Config(path)).run([x])
    np.testing.assert_array_equal(model(x), found)
    device = proa_lite.create_predictor(proa_lite.Config(path))
    np.testing.assert_array_equal(device.run([x])[0], found)
