"""Operators that draw random numbers: distributions, dtypes, seeds, recorded graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

N = 4000


def layer_of(op: str, like: Any = None, **attributes: Any) -> Any:
    """The layer of one node; `like` is the shape of its input."""
    info = helper.make_tensor_value_info
    inputs = [] if like is None else [info("x", TensorProto.FLOAT, like)]
    node = helper.make_node(op, [v.name for v in inputs], ["y"], **attributes)
    outputs = [info("y", TensorProto.FLOAT, None)]
    if not inputs:  # a graph must read an input
        inputs = [info("z", TensorProto.FLOAT, [])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    message = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return proa.onnx.load(message.SerializeToString())


def check(values: Any, mean: float, std: float, dtype: str) -> None:
    assert values.dtype == dtype
    wide = values.astype("float64")
    error = 5 * std / N**0.5
    assert abs(wide.mean() - mean) < error and abs(wide.std() - std) < error


@pytest.mark.parametrize("code", [TensorProto.FLOAT, TensorProto.DOUBLE,
                                  TensorProto.FLOAT16])  # fmt: skip
@pytest.mark.parametrize("like", [False, True])
def test_numbers_have_the_distribution_and_dtype(like: bool, code: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(code).name
    shape: dict[str, Any] = {} if like else {"shape": [N]}
    suffix, given = ("Like", [N]) if like else ("", None)
    normal = {"mean": 2.0, "scale": 0.5}
    for op, attributes, mean, std in (
        ("RandomNormal", normal, 2.0, 0.5),
        ("RandomUniform", {"low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
    ):
        net = layer_of(op + suffix, given, dtype=code, **attributes, **shape)
        first, second = (net(proa.zeros([N] if like else [])).numpy() for _ in "ab")
        check(first, mean, std, dtype)
        assert (first != second).any()


@pytest.mark.parametrize("seed", [{}, {"seed": 3.5}])
def test_trials_succeed_with_their_probabilities(seed: dict[str, float]) -> None:
    net = layer_of("Bernoulli", [N, 2], dtype=TensorProto.INT32, **seed)
    found = net(proa.to_tensor(np.float32([[0.2, 0.9]] * N))).numpy()
    assert set(np.unique(found)) == {0, 1}
    for column, p in zip(found.T, (0.2, 0.9), strict=True):
        check(column, p, (p * (1 - p)) ** 0.5, "int32")


def test_classes_are_drawn_by_the_logarithms_of_their_weights() -> None:
    net = layer_of("Multinomial", [1, 3], sample_size=N, dtype=TensorProto.INT64)
    weights = np.float32([[1, 0.001, 3]])
    found = net(proa.to_tensor(np.log(weights))).numpy()
    assert found.shape == (1, N) and found.dtype == "int64"
    np.testing.assert_allclose(
        np.bincount(found[0], minlength=3) / N, weights[0] / weights.sum(), atol=0.04
    )


def test_a_seed_repeats_the_numbers() -> None:
    first, second, other = (
        layer_of("RandomNormal", shape=[8], seed=s)(proa.zeros([])).numpy()
        for s in (1.5, 1.5, 2.5)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_a_recorded_graph_draws_again_in_each_run(tmp_path: Path) -> None:
    net = layer_of("RandomUniformLike", [N, 2])
    proa.jit.save(net, tmp_path / "m.proa", net.input_spec)
    saved = proa.jit.load(tmp_path / "m.proa")
    first, second = (saved(proa.zeros([N, 2])).numpy() for _ in "ab")
    check(first[:, 0], 0.5, 12**-0.5, "float32")
    assert (first != second).any()


def test_a_network_that_draws_is_read_again(tmp_path: Path) -> None:
    class Noisy(proa.nn.Layer):
        def forward(self, x: Any) -> Any:
            return x + proa.randn([N]), proa.bernoulli(proa.full([N], 0.25))

    proa.onnx.export(
        Noisy(), tmp_path / "noisy", [proa.static.InputSpec([N])], opset_version=17
    )
    normal, trials = proa.onnx.load(tmp_path / "noisy.onnx")(proa.zeros([N]))
    check(normal.numpy(), 0.0, 1.0, "float32")
    check(trials.numpy(), 0.25, (0.25 * 0.75) ** 0.5, "float32")
