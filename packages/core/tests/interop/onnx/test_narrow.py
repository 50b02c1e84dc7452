"""Weights of 4 bits and of 8-bit floats, which wider elements hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)


def model(kind: str, nodes: list[Any], weight: Any, **more: Any) -> Any:
    """x @ dequantized, or what nodes make of a weight (64, 3)."""
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    tensors = [
        numpy_helper.from_array(weight.astype(dtype), "w"),
        numpy_helper.from_array(np.float32([[0.5, 1, 2], [4, 0.25, 1]]), "scale"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 64])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors, **more)
    opsets = [helper.make_opsetid("", 23)]
    return helper.make_model(graph, opset_imports=opsets)


PRODUCT = [
    helper.make_node(
        "DequantizeLinear", ["w", "scale"], ["wide"], axis=0, block_size=32
    ),
    helper.make_node("MatMul", ["x", "wide"], ["y"]),
]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("INT4", np.arange(-8, 8)),
        ("UINT4", np.arange(16)),
        ("FLOAT8E4M3FN", [-448, -1.75, -(2.0**-9), 0, 2.0**-9, 1.125, 240]),
        ("FLOAT8E5M2", [-57344, -1.25, 0, 2.0**-16, 3.5]),
        ("FLOAT4E2M1", [-6, -1.5, -0.5, 0, 1, 3, 4]),
    ],
)
@pytest.mark.parametrize("external", [False, True])
def test_weights_in_blocks_are_dequantized(
    kind: str, numbers: Any, external: bool, tmp_path: Path
) -> None:
    weight = RNG.choice(np.asarray(numbers, np.float32), (64, 3))
    result, path = model(kind, PRODUCT, weight), tmp_path / "m.onnx"
    if external:
        onnx.save_model(
            result,
            path,
            save_as_external_data=True,
            location="m.data",
            size_threshold=0,
        )
    else:
        onnx.save_model(result, path)
    layer = proa.onnx.load(path)
    x = RNG.standard_normal((2, 64)).astype(np.float32)
    steps = np.repeat(np.float32([[0.5, 1, 2], [4, 0.25, 1]]), 32, 0)
    want = x @ (weight * steps)
    found = layer(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)
    again = proa.jit.load(tmp_path / "m.proa")(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(again, found, rtol=1e-5, atol=1e-5)


def test_external_elements_of_4_bits_must_all_be_there(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    result = model("INT4", PRODUCT, np.zeros((64, 3)))
    onnx.save_model(
        result, path, save_as_external_data=True, location="m.data", size_threshold=0
    )
    (tmp_path / "m.data").write_bytes(b"\0" * 8)
    with pytest.raises(InvalidArgumentError, match="of 8 in"):
        proa.onnx.load(path)


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        ([helper.make_node("Add", ["w", "w"], ["y"])], "Add"),
        ([helper.make_node("Transpose", ["w"], ["v"]),
          helper.make_node("Relu", ["v"], ["y"])], "Relu"),
        ([helper.make_node("Cast", ["x"], ["v"], to=TensorProto.INT4),
          helper.make_node("Neg", ["v"], ["y"])], "Neg"),
        ([helper.make_node("QuantizeLinear", ["w", "scale"], ["y"])], "Quant"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0)], "24"),
    ],
)  # fmt: skip
def test_other_readers_are_refused_for_results_would_be_wide(
    nodes: list[Any], name: str
) -> None:
    data = model("INT4", nodes, np.zeros((64, 3))).SerializeToString()
    with pytest.raises(UnimplementedError, match=name):
        proa.onnx.load(data)(proa.zeros([1, 64]))


def test_a_branch_may_not_read_one_either() -> None:
    def body(name: str) -> Any:
        node = helper.make_node("Relu", ["w"], [name])
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [output])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["test"], to=TensorProto.BOOL),
        helper.make_node(
            "If", ["test"], ["y"], then_branch=body("a"), else_branch=body("b")
        ),
    ]
    data = model("UINT4", nodes, np.zeros((64, 3))).SerializeToString()
    with pytest.raises(UnimplementedError, match="Relu"):
        proa.onnx.load(data)


FLOATS = {
    "FLOAT8E4M3FN": 448, "FLOAT8E4M3FNUZ": 240, "FLOAT8E5M2": 57344,
    "FLOAT8E5M2FNUZ": 57344, "FLOAT4E2M1": 6,
}  # fmt: skip


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", FLOATS)
def test_numbers_are_rounded_as_narrow_floats_are(
    kind: str, saturate: int, tmp_path: Path
) -> None:
    if kind == "FLOAT4E2M1" and not saturate:
        return  # it has neither infinity nor NaN
    node = helper.make_node(
        "Cast", ["x"], ["y"], to=getattr(TensorProto, kind), saturate=saturate
    )
    result = model(kind, [node], np.zeros((64, 3)))
    layer = proa.onnx.load(result.SerializeToString())
    proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    size = np.float32(2) ** RNG.uniform(-20, 17, (100, 64))
    every = np.arange(256 if kind != "FLOAT4E2M1" else 16, dtype="u1").view(dtype)
    known = every.astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    between = np.resize((known[1:] + known[:-1]) / 2, (4, 64))
    x = np.concatenate([size * RNG.choice([-1, 1], size.shape), between])
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    if saturate:
        highest = FLOATS[kind]
        beyond = ~np.isfinite(expected) | (np.abs(x) > highest)
        expected = np.where(beyond, np.sign(x) * highest, expected)
    for run in (layer, proa.jit.load(tmp_path / "m.proa")):
        np.testing.assert_array_equal(run(proa.to_tensor(x)).numpy(), expected)


def test_integers_of_4_bits_are_written_and_read_again() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "half", "point"], ["q"]),
        helper.make_node("Identity", ["q"], ["moved"]),
        helper.make_node("DequantizeLinear", ["moved", "half", "point"], ["y"]),
    ]
    result = model("UINT4", nodes, np.zeros((64, 3)))
    for name, value in (("half", np.float32(0.5)), ("point", np.array(3, "u1"))):
        tensor = numpy_helper.from_array(value, name)
        if name == "point":
            dtype = helper.tensor_dtype_to_np_dtype(TensorProto.UINT4)
            tensor = numpy_helper.from_array(value.astype(dtype), name)
        result.graph.initializer.append(tensor)
    x = RNG.uniform(-3, 9, (5, 64)).astype(np.float32)
    found = proa.onnx.load(result.SerializeToString())(proa.to_tensor(x)).numpy()
    expected = (np.clip(np.round(x / 0.5) + 3, 0, 15) - 3) * 0.5
    np.testing.assert_allclose(found, expected)
