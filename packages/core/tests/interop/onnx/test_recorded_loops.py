"""Loops of ONNX models in recorded graphs: how many rounds they have, with and without
the rounds that were recorded one by one. References are loops of Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

make, info = helper.make_node, helper.make_tensor_value_info
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def saved(graph: Any, path: Path) -> Any:
    """The loaded model and what is recorded of it."""
    opsets = [helper.make_opsetid("", 17)]
    message = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    layer = proa.onnx.load(message.SerializeToString())
    proa.jit.save(layer, path / "m.proa", layer.input_spec)
    return layer, proa.jit.load(path / "m.proa")


def adding_loop(count: int, bounded: bool, rows: bool) -> Any:
    """Adds 1, 2, … to x, while the sum is below 100 if it is bounded."""
    nodes = [
        make("Add", ["at", "one"], ["whole"]),
        make("Cast", ["whole"], ["more"], to=FLOAT),
        make("Add", ["old", "more"], ["new"]),
        make("ReduceSum", ["new"], ["sum"], keepdims=0),
        make("Less", ["sum", "bound"], ["goes_on"])
        if bounded else make("Identity", ["test"], ["goes_on"]),
    ]  # fmt: skip
    outputs = [info("goes_on", BOOL, []), info("new", FLOAT, [2])]
    if rows:
        nodes.append(make("Identity", ["new"], ["row"]))
        outputs.append(info("row", FLOAT, [2]))
    inputs = [info("at", INT64, []), info("test", BOOL, []), info("old", FLOAT, [2])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    names = ["y", "rows"] if rows else ["y"]
    constants = {
        "count": np.array(count), "one": np.array(1), "bound": np.float32(100)
    }  # fmt: skip
    return helper.make_graph(
        [make("Loop", ["count", "", "x"], names, body=body)], "g",
        [info("x", FLOAT, [2])], [info(name, FLOAT, None) for name in names],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(
    ("count", "bounded"), [(0, True), (1, True), (3, True), (2**40, True), (5, False),
                           (1500, False)],
)  # fmt: skip
def test_a_loop_has_the_rounds_of_its_count_and_condition(
    count: int, bounded: bool, rows: bool, tmp_path: Path
) -> None:
    layer, recorded = saved(adding_loop(count, bounded, rows), tmp_path)
    for x in (np.float32([1, 2]), np.float32([70, 0])):
        want, stack = x, np.zeros((0, 2), np.float32)
        while len(stack) < count and (
            not stack.size or not bounded or want.sum() < 100
        ):
            want = want + np.float32(len(stack) + 1)
            stack = np.concatenate([stack, want[None]])
        for each in (layer, recorded):
            found = each(proa.to_tensor(x))
            if rows:
                np.testing.assert_array_equal(found[1].numpy(), stack)
            np.testing.assert_array_equal((found[0] if rows else found).numpy(), want)


def test_a_long_scan_is_recorded_as_a_loop(tmp_path: Path) -> None:
    body = helper.make_graph(
        [make("Add", ["old", "row"], ["new"]), make("Identity", ["new"], ["sum"])],
        "body", [info("old", FLOAT, [2]), info("row", FLOAT, [2])],
        [info("new", FLOAT, [2]), info("sum", FLOAT, [2])],
    )  # fmt: skip
    graph = helper.make_graph(
        [make("Scan", ["start", "x"], ["total", "sums"], num_scan_inputs=1, body=body)],
        "g", [info("start", FLOAT, [2]), info("x", FLOAT, [3000, 2])],
        [info("total", FLOAT, [2]), info("sums", FLOAT, [3000, 2])],
    )  # fmt: skip
    _, recorded = saved(graph, tmp_path)
    assert sum(1 for _ in recorded.program().nodes()) < 100
    x = np.random.default_rng(0).integers(-9, 9, (3000, 2)).astype(np.float32)
    start = np.float32([1, -1])
    total, sums = recorded(proa.to_tensor(start), proa.to_tensor(x))
    np.testing.assert_array_equal(sums.numpy(), start + np.cumsum(x, 0))
    np.testing.assert_array_equal(total.numpy(), start + x.sum(0))


def test_names_that_are_not_text_are_refused() -> None:
    graph = helper.make_graph(
        [make("Relu", ["image"], ["y"])], "g", [info("image", FLOAT, [2])],
        [info("y", FLOAT, [2])],
    )  # fmt: skip
    message = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    damaged = message.SerializeToString().replace(b"image", b"im\xff\xfee")
    with pytest.raises(InvalidArgumentError, match="names in UTF-8"):
        proa.onnx.load(damaged)


def test_a_recurrent_layer_has_the_directions_of_its_weights(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [make("RNN", ["x", "w", "r"], ["", "y"], hidden_size=5)], "g",
        [info("x", FLOAT, [4, 2, 3]), info("w", FLOAT, [2**31, 5, 3]),
         info("r", FLOAT, [2**31, 5, 5])],
        [info("y", FLOAT, None)],
    )  # fmt: skip
    with pytest.raises(UnimplementedError, match="weights of 2147483648 directions"):
        saved(graph, tmp_path)
