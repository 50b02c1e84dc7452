"""Operators of `com.microsoft` against onnxruntime: eager, and recorded."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest

import proa

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

from .microsoft_cases import CASES, Case  # noqa: E402


def model_of(case: Case) -> bytes:
    """A model of one node, whose batch and steps are symbolic."""
    given, constants, names = [], [], []
    for at, array in enumerate(case.inputs):
        names.append("" if array is None else f"x{at}")
        if array is None:
            continue
        tensor = numpy_helper.from_array(np.asarray(array), names[-1])
        if at in case.constants:
            constants.append(tensor)
            continue
        shape: list[Any] = list(tensor.dims)
        if case.recorded and case.op != "QLinearConcat":
            symbolic = 2 if len(shape) == 3 else 1
            symbols = ["batch", "steps"] if len(shape) > 1 else ["rows"]
            shape[:symbolic] = symbols[:symbolic]
        given.append(helper.make_tensor_value_info(names[-1], tensor.data_type, shape))
    results = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(
        case.op, names, results, domain=case.domain, **case.attributes
    )
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], case.op, given, outputs, constants)
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid("com.microsoft", 1)]
    message = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    data: bytes = message.SerializeToString()
    return data


def reference(data: bytes, feed: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feed))


def compare(found: Any, expected: list[Any], case: Case) -> None:
    results = found if isinstance(found, tuple) else (found,)
    assert len(results) == len(expected)
    for ours, theirs in list(zip(results, expected, strict=True))[: case.compared]:
        if theirs is None or ours is None or not theirs.size:
            continue
        array = ours.numpy()
        assert array.shape == theirs.shape
        assert array.dtype == theirs.dtype
        if theirs.dtype.kind in "iu":  # ties may be rounded after another order of sums
            apart = np.abs(array.astype(int) - theirs.astype(int))
            assert apart.max() <= 1
            assert np.count_nonzero(apart) <= 0.02 * apart.size
        else:
            np.testing.assert_allclose(array, theirs, rtol=1e-4, atol=case.atol)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_of_microsoft_computes_what_onnxruntime_does(name: str) -> None:
    case = CASES[name]
    data = model_of(case)
    feed = {
        f"x{at}": np.asarray(array)
        for at, array in enumerate(case.inputs)
        if array is not None and at not in case.constants
    }
    if case.expected is None:
        expected = reference(data, feed)
    else:
        expected = [case.expected(*case.inputs)]
    layer = proa.onnx.load(data)
    given = [proa.to_tensor(feed[info.name]) for info in layer.inputs]
    with proa.no_grad():
        compare(layer(*given), expected, case)
    if not case.recorded:
        return
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    compare(proa.jit.load(file)(*given), expected, case)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The model with an attribute or input that is missing or another one."""
    message = onnx.ModelProto.FromString(data)
    (node,) = message.graph.node
    kind = rng.integers(0, 4)
    if kind == 0 and node.attribute:
        del node.attribute[rng.integers(0, len(node.attribute))]
    elif kind == 1 and node.attribute:
        attribute = node.attribute[rng.integers(0, len(node.attribute))]
        attribute.i, attribute.f = int(rng.integers(-4, 40)), 0.0
        if attribute.ints:
            attribute.ints[0] = int(rng.integers(-4, 40))
    elif kind == 2:
        node.input[rng.integers(0, len(node.input))] = ""
    else:
        at, other = rng.integers(0, len(node.input), 2)
        node.input[at] = node.input[other]
    changed: bytes = message.SerializeToString()
    return changed


@pytest.mark.fuzz
def test_damaged_nodes_end_in_typed_errors() -> None:
    rng = np.random.default_rng(0)
    for case in CASES.values():
        data = model_of(case)
        arrays = {f"x{i}": a for i, a in enumerate(case.inputs) if a is not None}
        for _ in range(8):
            with contextlib.suppress(proa.errors.Error):
                layer = proa.onnx.load(damaged(data, rng))
                with proa.no_grad():
                    layer(*[proa.to_tensor(arrays[i.name]) for i in layer.inputs])
