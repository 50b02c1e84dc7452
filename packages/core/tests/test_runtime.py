"""`proa.runtime`: what packages built on Proa take from the compiled module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.runtime import (
    call_operator,
    engine_from_bytes,
    engine_from_parts,
    graph_value,
    is_symbolic,
    load_engine,
    replace_memory,
    suits_winograd,
)
from proa.static import InputSpec

RNG = np.random.default_rng(8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = x @ w + b of a Linear whose numbers the tests know."""
    layer = nn.Linear(3, 2)
    layer.weight.set_value(np.arange(6, dtype=np.float32).reshape(3, 2))
    layer.bias.set_value(np.array([10, 20], np.float32))
    path = tmp_path_factory.mktemp("runtime") / "linear.proa"
    proa.jit.save(layer, str(path), [InputSpec([None, 3], "float32", "x")])
    return path


def parts(path: Path):
    graph, weights = file.to_parts(file.read(path))
    return engine_from_parts(graph, weights)


@pytest.mark.parametrize(
    "opened",
    [load_engine, lambda path: engine_from_bytes(path.read_bytes()), parts],
    ids=["path", "bytes", "parts"],
)
def test_an_engine_runs_the_model(model: Path, opened):
    engine = opened(model)
    assert engine.inputs == [("x", "float32", (-1, 3))]
    assert [(dtype, shape) for _, dtype, shape in engine.outputs] == [
        ("float32", (-1, 2))
    ]
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    expected = x @ np.arange(6, dtype=np.float32).reshape(3, 2) + [10, 20]
    for each in (engine, engine.clone()):
        (y,) = each.run([x])
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert {op for op, _, _ in engine.profile([x])} == {"linear"}
    assert not engine.has_control_flow
    assert engine.arena_bytes > 0


def test_an_operator_is_called_by_name():
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    (y,) = call_operator("exp", proa.to_tensor(x))
    np.testing.assert_allclose(y.numpy(), np.exp(x), rtol=1e-6)
    values, indices = call_operator("topk", proa.to_tensor(x), k=2, axis=1)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, axis=1)[:, :2])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-x, axis=1)[:, :2])


def test_a_name_that_no_operator_has_is_refused():
    with pytest.raises(InvalidArgumentError, match="expected the name of an operator"):
        call_operator("__doc__x")


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(3, 2), (4, 3)),
        (lambda: nn.Conv1D(2, 3, 3), (1, 2, 6)),
        (lambda: nn.Conv2D(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 6, 6)),
        (lambda: nn.Conv2DTranspose(2, 3, 3, stride=2), (1, 2, 4, 4)),
    ],
)
def test_a_layer_computes_with_another_weight(layer, shape):
    one, other = layer(), layer()
    other.bias.set_value(one.bias.numpy())
    x = proa.to_tensor(RNG.standard_normal(shape).astype(np.float32))
    given = one.forward_with_weight(x, other.weight).numpy()
    np.testing.assert_array_equal(given, other(x).numpy())


@pytest.mark.parametrize(
    "changed",
    [
        *({}, {"in_channels": 24, "out_channels": 24}, {"in_channels": 23}),
        *({"out_channels": 23}, {"in_channels": 528, "out_channels": 512}),
        *({"stride": 2}, {"dilation": 2}, {"groups": 2}, {"kernel_size": 1}),
    ],
    ids=str,
)
def test_weights_that_suit_winograd_are_packed_for_it(tmp_path: Path, changed):
    given = {"in_channels": 64, "out_channels": 64, "kernel_size": 3, **changed}
    layer = nn.Conv2D(**given, bias_attr=False)
    path, shape = tmp_path / "conv.proa", [1, given["in_channels"], 8, 8]
    proa.jit.save(layer, str(path), [InputSpec(shape, "float32", "x")])
    engine = load_engine(path)
    engine.run([np.zeros(shape, np.float32)])
    growth = engine.packed_bytes / (4 * layer.weight.size)
    expected = suits_winograd(
        "float32",
        layer.weight.shape,
        [given.get("stride", 1)] * 2,
        [given.get("dilation", 1)] * 2,
        given.get("groups", 1),
    )
    # F(2 x 2, 3 x 3) holds 16 transformed numbers for the 9 of a kernel.
    assert (growth > 1.5) == expected
    assert expected == (not changed or changed.get("out_channels") == 24)


def test_wide_numbers_and_integers_do_not_suit_winograd():
    for dtype, expected in (
        *(("float32", True), ("float16", True), ("bfloat16", True)),
        *(("float64", False), ("int8", False)),
    ):
        assert suits_winograd(dtype, [64, 64, 3, 3], [1, 1], [1, 1], 1) == expected


def test_a_constant_recurrent_weight_is_packed_and_gives_what_numpy_gives(tmp_path):
    layer = nn.LSTM(5, 7)
    path = tmp_path / "lstm.proa"
    proa.jit.save(layer, str(path), [InputSpec([2, 4, 5], "float32", "x")])
    engine = load_engine(path)
    x = np.random.default_rng(0).standard_normal((2, 4, 5)).astype(np.float32)
    found = engine.run([x])[0]
    assert engine.packed_bytes >= 4 * 7 * 28
    w, u, b, c = (p.numpy() for p in layer.parameters())
    h = state = np.zeros((2, 7))
    for t in range(4):
        gates = np.split(x[:, t] @ w.T + b + h @ u.T + c, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-gates[k])) for k in (0, 1, 3))
        state = f * state + i * np.tanh(gates[2])
        h = o * np.tanh(state)
        np.testing.assert_allclose(found[:, t], h, rtol=1e-5, atol=1e-6)


def test_tensors_of_a_recording_are_symbolic() -> None:
    seen = []

    @proa.jit.to_static
    def double(x: proa.Tensor) -> proa.Tensor:
        seen.append(is_symbolic(x))
        return x * 2

    double(proa.ones([2]))
    assert True in seen
    assert not is_symbolic(proa.ones([2]))


def test_a_variable_names_a_value_of_its_programs_graph() -> None:
    proa.enable_static()
    try:
        program = proa.static.Program()
        with proa.static.program_guard(program):
            x = proa.static.data("x", [None, 3], "float32")
            y = proa.tanh(x)
    finally:
        proa.disable_static()
    assert graph_value(x) is program.graph.main.inputs[0]
    producer = graph_value(y).producer
    assert producer is not None and producer.op == "tanh"
    with pytest.raises(InvalidArgumentError, match=r"symbolic tensor, got .* \[2\]"):
        graph_value(proa.ones([2]))


def test_a_tensor_takes_the_memory_and_shape_of_another() -> None:
    x, other = proa.ones([2]), proa.zeros([3, 4])
    before = x.inplace_version
    replace_memory(x, other)
    assert x.shape == [3, 4]
    assert x.inplace_version == before + 1
    other.add_(proa.ones([3, 4]))
    np.testing.assert_array_equal(x.numpy(), np.ones((3, 4), np.float32))
