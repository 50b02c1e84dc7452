"""Initializers are read from a file into the arrays that parameters keep."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from proa.interop.onnx.importer import payload, proto  # noqa: E402

RNG = np.random.default_rng(0)


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def network(size: int, constants: dict[str, Any] | None = None) -> Any:
    """y = (x a) b + a[0], so that `a` is read twice."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("MatMul", ["h", "b"], ["z"]),
        helper.make_node("Gather", ["a", "zero"], ["row"]),
        helper.make_node("Add", ["z", "row"], ["y"]),
    ]
    constants = constants or {
        name: RNG.standard_normal((size, size)).astype("f") for name in "ab"
    }
    tensors = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    tensors.append(numpy_helper.from_array(np.array(0), "zero"))
    graph = helper.make_graph(
        nodes, "net", [floats("x", "n", size)], [floats("y", "n", size)], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("where", ["bytes", "file", "external"])
def test_a_parameter_has_the_buffer_that_its_initializer_was_read_into(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, path = network(40), tmp_path / "model.onnx"
    if where == "external":
        onnx.save_model(
            message, path, save_as_external_data=True, location="w", size_threshold=0
        )
    else:
        path.write_bytes(message.SerializeToString())
    seen: dict[str, int] = {}
    read = proto.Reader.initializers

    def initializers(self: Any, tensors: Any) -> Any:
        found = read(self, tensors)
        seen.update({name: address(array) for name, array in found.items()})
        return found

    monkeypatch.setattr(proto.Reader, "initializers", initializers)
    layer = proa.onnx.load(path.read_bytes() if where == "bytes" else path)
    addresses = {n: address(p.numpy()) for n, p in layer.named_parameters()}
    # `a` is one parameter though two nodes read it
    assert addresses == {name: seen[name] for name in "ab"}


def test_a_model_takes_little_more_memory_than_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(network(1500).SerializeToString())  # 18 MB
    proa.onnx.load(network(2).SerializeToString())  # modules are imported
    tracemalloc.start()
    try:
        layer = proa.onnx.load(path)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = path.stat().st_size
    assert peak < 1.2 * size
    assert len(layer.parameters()) == 2
    assert held < 1.1 * size


def test_elements_that_were_taken_out_are_those_of_the_message() -> None:
    arrays = {
        "a": RNG.standard_normal((30, 30)).astype("f"),
        "b": RNG.standard_normal((30, 30)).astype("f"),
        "half": RNG.standard_normal((30, 30)).astype(np.float16),
        "ids": RNG.integers(0, 9, (400,)),
        "few": np.arange(3),
    }
    data = network(30, arrays).SerializeToString()
    light, spans = payload.split(io.BytesIO(data), len(data))
    assert len(light) < 1500
    assert [span is None for span in spans] == [False] * 4 + [True, True]
    for array, span in zip(arrays.values(), spans, strict=False):
        if span is not None:
            assert data[span[0] : span[1]] == array.tobytes()
    message = onnx.ModelProto.FromString(light)
    whole = onnx.ModelProto.FromString(data)
    for tensor, span in zip(message.graph.initializer, spans, strict=True):
        if span is not None:
            tensor.raw_data = data[span[0] : span[1]]
    assert message == whole


def test_typed_arrays_of_the_message_are_read_too() -> None:
    message = network(3)
    del message.graph.initializer[:2]
    values = np.arange(9, dtype=np.float32)
    for name in "ab":
        tensor = helper.make_tensor(name, TensorProto.FLOAT, [3, 3], values)
        message.graph.initializer.append(tensor)
    layer = proa.onnx.load(message.SerializeToString())
    np.testing.assert_array_equal(layer.a.numpy(), values.reshape(3, 3))


def test_a_text_is_not_created_from_bytes() -> None:
    message = network(30)
    message.graph.initializer[0].data_type = TensorProto.STRING
    message.graph.initializer[0].raw_data = bytes(8 * 900)
    with pytest.raises(proa.errors.Error):
        proa.onnx.load(message.SerializeToString())


@pytest.mark.fuzz
def test_damaged_large_models_end_in_typed_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    good = network(20).SerializeToString()
    path = tmp_path / "model.onnx"
    # places outside the elements: headers, sizes, names and nodes
    _, spans = payload.split(io.BytesIO(good), len(good))
    inside = np.ones(len(good), bool)
    for span in spans:
        if span is not None:
            inside[span[0] : span[1]] = False
    places = np.flatnonzero(inside)
    for _ in range(600):
        data = bytearray(good)
        for at in rng.choice(places, rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        if rng.random() < 0.2:
            del data[rng.integers(0, len(data)) :]
        path.write_bytes(data)
        with contextlib.suppress(proa.errors.Error):
            layer = proa.onnx.load(path)
            layer(proa.ones([2, 20]))
