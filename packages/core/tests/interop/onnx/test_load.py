"""What `proa.onnx.load` makes of models."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.cli import main
from proa.errors import (
    InvalidArgumentError,
    MissingFileError,
    UnavailableError,
    UnimplementedError,
)

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

W = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
B = np.array([0.5, -1.0, 2.0, 0.0], np.float32)


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any],
    constants: dict[str, Any] | None = None, opset: int = 17, **more: Any,
) -> Any:  # fmt: skip
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, **more)


def linear_model() -> Any:
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["product"]),
        helper.make_node("Add", ["product", "fc.bias"], ["y"]),
    ]
    constants = {"fc.weight": W, "fc.bias": B}
    return model(nodes, [floats("x", "n", 3)], [floats("y", "n", 4)], constants)


def loaded(message: Any, **more: Any) -> Any:
    return proa.onnx.load(message.SerializeToString(), **more)


def test_weights_are_parameters_under_their_names() -> None:
    layer = loaded(linear_model())
    names = {name: p.shape for name, p in layer.named_parameters()}
    assert names == {"fc_weight": [3, 4], "fc_bias": [4]}
    assert not layer.training
    x = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
    np.testing.assert_allclose(layer(proa.to_tensor(x)).numpy(), x @ W + B, rtol=1e-6)


def test_a_loaded_model_is_trained_further() -> None:
    layer = loaded(linear_model())
    x = proa.to_tensor(np.eye(3, dtype=np.float32))
    step = proa.optimizer.SGD(0.1, parameters=layer.parameters())
    (layer(x) ** 2).mean().backward()
    # d mean(y ** 2) / dW = 2 / 12 * y for x = I
    expected = W - 0.1 * 2 / 12 * (W + B)
    step.step()
    np.testing.assert_allclose(layer.fc_weight.numpy(), expected, rtol=1e-5)


def test_a_loaded_model_is_saved_with_symbolic_sizes() -> None:
    layer = loaded(linear_model())
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    again = proa.jit.load(file)
    for n in (1, 5):
        x = np.full((n, 3), 0.5, np.float32)
        np.testing.assert_allclose(
            again(proa.to_tensor(x)).numpy(), x @ W + B, rtol=1e-6
        )


def test_an_axis_of_a_symbolic_size_is_squeezed() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "zero", "one", "one"], ["first"]),
        helper.make_node("Squeeze", ["first", "one"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1])}
    layer = loaded(
        model(nodes, [floats("x", "n", "t", 3)], [floats("y", "n", 3)], constants)
    )
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    found = proa.jit.load(file)(proa.to_tensor(x)).numpy()
    np.testing.assert_array_equal(found, x[:, 0])


def test_sizes_are_computed_while_a_graph_is_recorded() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Gather", ["shape", "last"], ["w"], axis=0),
        helper.make_node("Mul", ["w", "two"], ["w2"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Unsqueeze", ["w2", "axis"], ["w1"]),
        helper.make_node("Concat", ["n1", "minus", "w1"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    constants = {
        "zero": np.array(0), "last": np.array(3), "two": np.array(2),
        "axis": np.array([0]), "minus": np.array([-1]),
    }  # fmt: skip
    x_info, y_info = floats("x", "n", 4, "h", "w"), floats("y", "n", "a", "b")
    layer = loaded(model(nodes, [x_info], [y_info], constants))
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    saved = proa.jit.load(file)
    for shape in ((1, 4, 2, 3), (2, 4, 3, 5)):
        x = np.random.default_rng(0).random(shape, np.float32)
        expected = x.reshape(shape[0], -1, 2 * shape[3])
        for run in (layer, saved):
            np.testing.assert_array_equal(run(proa.to_tensor(x)).numpy(), expected)


def branching_model() -> Any:
    def branch(name: str, op: str) -> Any:
        node = helper.make_node(op, ["x", "one"], [name])
        return helper.make_graph([node], name, [], [floats(name, 2)])

    nodes = [
        helper.make_node("Greater", ["k", "zero"], ["up"]),
        helper.make_node(
            "If", ["up"], ["y"], then_branch=branch("sum", "Add"),
            else_branch=branch("difference", "Sub"),
        ),
    ]  # fmt: skip
    constants = {"zero": np.array(0), "one": np.ones(1, np.float32)}
    k = helper.make_tensor_value_info("k", TensorProto.INT64, [])
    return model(nodes, [floats("x", 2), k], [floats("y", 2)], constants)


def test_a_branch_is_saved_as_a_branch() -> None:
    layer = loaded(branching_model())
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    saved = proa.jit.load(file)
    x = proa.to_tensor(np.array([1, 2], np.float32))
    for run in (layer, saved):
        for k, expected in ((1, [2, 3]), (-1, [0, 1])):
            found = run(x, proa.to_tensor(np.array(k)))
            np.testing.assert_array_equal(found.numpy(), expected)


def test_a_loop_whose_count_is_an_input_is_saved_as_a_loop() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["double"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            floats("v", 2),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            floats("double", 2),
        ],
    )
    node = helper.make_node("Loop", ["k", "", "x"], ["y"], body=body)
    k = helper.make_tensor_value_info("k", TensorProto.INT64, [])
    layer = loaded(model([node], [floats("x", 2), k], [floats("y", 2)]))
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    saved = proa.jit.load(file)
    x = proa.to_tensor(np.array([1, 3], np.float32))
    for run in (layer, saved):
        for count in (0, 1, 4):
            found = run(x, proa.to_tensor(np.array(count)))
            np.testing.assert_array_equal(found.numpy(), np.array([1, 3]) * 2**count)


def info(name: str, kind: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def saved_again(layer: Any) -> Any:
    file = io.BytesIO()
    proa.jit.save(layer, file, layer.input_spec)
    file.seek(0)
    return proa.jit.load(file)


def test_a_saved_loop_stacks_what_its_rounds_give() -> None:
    # v doubles until k rounds are over or its first element is over 20
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["double"]),
            helper.make_node("ReduceMin", ["double"], ["low"], keepdims=0),
            helper.make_node("Less", ["low", "top"], ["on"]),
            helper.make_node("Neg", ["v"], ["row"]),
        ],
        "body",
        [info("i", TensorProto.INT64), info("go", TensorProto.BOOL), floats("v", 2)],
        [info("on", TensorProto.BOOL), floats("double", 2), floats("row", 2)],
    )
    node = helper.make_node("Loop", ["k", "", "x"], ["y", "rows"], body=body)
    top = {"top": np.float32(20)}
    outputs = [floats("y", 2), floats("rows", "n", 2)]
    x = np.array([1, 3], np.float32)
    for k in (info("k", TensorProto.INT64), None):
        inputs = [floats("x", 2)] + ([k] if k else [])
        if not k:  # the condition alone is symbolic
            top["k"] = np.array(4)
        layer = loaded(model([node], inputs, outputs, top))
        for run in (layer, saved_again(layer)):
            for count in (0, 1, 4, 9) if k else (4,):
                more = [proa.to_tensor(np.array(count))] if k else []
                y, rows = run(proa.to_tensor(x), *more)
                rounds = min(count, 5)
                np.testing.assert_array_equal(y.numpy(), x * 2**rounds)
                expected = [-x * 2**i for i in range(rounds)]
                np.testing.assert_array_equal(
                    rows.numpy(), np.reshape(expected, (rounds, 2))
                )


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_along_a_symbolic_dimension_is_saved(backwards: int) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["running"]),
        ],
        "body",
        [floats("sum", 2), floats("row", 2)],
        [floats("next", 2), floats("running", 2)],
    )
    node = helper.make_node(
        "Scan", ["start", "x"], ["total", "sums"], num_scan_inputs=1, body=body,
        scan_input_axes=[1], scan_input_directions=[backwards],
        scan_output_axes=[1], scan_output_directions=[backwards],
    )  # fmt: skip
    inputs = [floats("start", 2), floats("x", 2, "steps")]
    outputs = [floats("total", 2), floats("sums", 2, "steps")]
    layer = loaded(model([node], inputs, outputs))
    saved = saved_again(layer)
    rng = np.random.default_rng(0)
    for steps in (1, 3, 6):
        x, start = rng.random((2, steps), "f"), rng.random(2, "f")
        order = slice(None, None, -1 if backwards else 1)
        sums = (start[:, None] + np.cumsum(x[:, order], 1))[:, order]
        for run in (layer, saved):
            total, running = run(proa.to_tensor(start), proa.to_tensor(x))
            np.testing.assert_allclose(total.numpy(), start + x.sum(1), rtol=1e-6)
            np.testing.assert_allclose(running.numpy(), sums, rtol=1e-6)


def test_a_fixed_input_is_no_longer_taken() -> None:
    layer = loaded(branching_model(), fixed={"k": 1})
    assert [info.name for info in layer.inputs] == ["x"]
    x = proa.to_tensor(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(layer(x).numpy(), [2, 3])
    with pytest.raises(InvalidArgumentError, match="fixed"):
        loaded(branching_model(), fixed={"nope": 1})


def test_all_unknown_operators_are_named_at_once() -> None:
    nodes = [
        helper.make_node("Reluu", ["x"], ["a"]),
        helper.make_node("Conw", ["a"], ["y"]),
    ]
    with pytest.raises(UnimplementedError, match="Conw") as caught:
        loaded(model(nodes, [floats("x", 2)], [floats("y", 2)]))
    assert "Reluu of opset 17 (nearest: Relu" in str(caught.value)
    assert "Conw of opset 17 (nearest: Conv" in str(caught.value)


def test_a_models_own_function_is_called() -> None:
    body = [
        helper.make_node("Mul", ["a", "a"], ["square"]),
        helper.make_node("LeakyRelu", ["square"], ["out"]),
    ]
    attribute = body[1].attribute.add()
    attribute.name, attribute.ref_attr_name = "alpha", "slope"
    attribute.type = onnx.AttributeProto.FLOAT
    function = helper.make_function(
        "own", "Squared", ["a"], ["out"], body, [helper.make_opsetid("", 17)], ["slope"]
    )
    node = helper.make_node("Squared", ["x"], ["y"], domain="own", slope=0.5)
    message = model(
        [node], [floats("x", 2)], [floats("y", 2)], functions=[function],
        opsets=[helper.make_opsetid("own", 1)],
    )  # fmt: skip
    found = loaded(message)(proa.to_tensor(np.array([-3, 2], np.float32)))
    np.testing.assert_array_equal(found.numpy(), [9, 4])


def test_a_function_with_a_constant_is_called_twice() -> None:
    shift = numpy_helper.from_array(np.array([1, 2], np.float32))
    body = [
        helper.make_node("Constant", [], ["shift"], value=shift),
        helper.make_node("Add", ["a", "shift"], ["out"]),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Shifted", ["a"], ["out"], body, opsets)
    nodes = [
        helper.make_node("Shifted", ["x"], ["b"], domain="own"),
        helper.make_node("Shifted", ["b"], ["y"], domain="own"),
    ]
    message = model(
        nodes, [floats("x", 2)], [floats("y", 2)], functions=[function],
        opsets=[helper.make_opsetid("own", 1)],
    )  # fmt: skip
    layer = loaded(message)
    found = layer(proa.to_tensor(np.array([0, 0], np.float32)))
    np.testing.assert_array_equal(found.numpy(), [2, 4])
    layer.parameters()[0].set_value(proa.zeros([2]))  # each call has its own
    found = layer(proa.to_tensor(np.array([0, 0], np.float32)))
    np.testing.assert_array_equal(found.numpy(), [1, 2])


def test_a_function_that_calls_itself_is_refused() -> None:
    node = helper.make_node("Again", ["a"], ["out"], domain="own")
    function = helper.make_function(
        "own", "Again", ["a"], ["out"], [node], [helper.make_opsetid("own", 1)]
    )
    call = helper.make_node("Again", ["x"], ["y"], domain="own")
    message = model(
        [call], [floats("x", 2)], [floats("y", 2)], functions=[function],
        opsets=[helper.make_opsetid("own", 1)],
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="functions inside one another"):
        loaded(message)


def external_model(location: str) -> Any:
    message = linear_model()
    tensor = message.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "4"), ("length", "48")):
        tensor.external_data.add(key=key, value=value)
    return message, b"\0" * 4 + data


def test_external_data_is_read_from_the_models_folder(tmp_path: Path) -> None:
    message, data = external_model("weights.bin")
    (tmp_path / "weights.bin").write_bytes(data)
    path = tmp_path / "model.onnx"
    path.write_bytes(message.SerializeToString())
    np.testing.assert_array_equal(proa.onnx.load(path).fc_weight.numpy(), W)
    for source in (path.read_bytes(), io.BytesIO(path.read_bytes()), message):
        layer = proa.onnx.load(source, folder=tmp_path)
        np.testing.assert_array_equal(layer.fc_weight.numpy(), W)
    with path.open("rb") as file:
        layer = proa.onnx.load(file, folder=tmp_path)
    np.testing.assert_array_equal(layer.fc_weight.numpy(), W)
    with pytest.raises(InvalidArgumentError, match="a ModelProto, got StringIO"):
        proa.onnx.load(io.StringIO("model"))  # type: ignore[arg-type]


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "link.bin"])
def test_external_data_outside_the_folder_is_refused(
    tmp_path: Path, location: str
) -> None:
    message, data = external_model(location)
    (tmp_path / "weights.bin").write_bytes(data)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = folder / "model.onnx"
    path.write_bytes(message.SerializeToString())
    with pytest.raises(InvalidArgumentError, match="outside"):
        proa.onnx.load(path)
    with pytest.raises(InvalidArgumentError, match="without a path"):
        loaded(message)


def test_external_data_that_is_too_short_is_refused(tmp_path: Path) -> None:
    message, data = external_model("weights.bin")
    (tmp_path / "weights.bin").write_bytes(data[:-1])
    path = tmp_path / "model.onnx"
    path.write_bytes(message.SerializeToString())
    with pytest.raises(InvalidArgumentError, match="12 elements at byte 4 of 51"):
        proa.onnx.load(path)


def test_a_model_is_converted_by_the_command(tmp_path: Path) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "model.proa"
    source.write_bytes(branching_model().SerializeToString())
    assert main(["convert", str(source), str(target), "--fix", "k=-1"]) == 0
    x = proa.to_tensor(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(proa.jit.load(str(target))(x).numpy(), [0, 1])
    source.write_bytes(linear_model().SerializeToString())
    assert main(["convert", str(source), str(target), "--shape", "x=2,3"]) == 0
    assert proa.jit.load(str(target))(proa.ones([2, 3])).shape == [2, 4]


@pytest.mark.parametrize("option", ["--fix=k", "--fix=k=a", "--shape=z=1,2"])
def test_the_command_reports_a_wrong_option(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(branching_model().SerializeToString())
    assert main(["convert", str(source), str(tmp_path / "m.proa"), option]) == 1
    assert "expected" in capsys.readouterr().err


def test_without_the_package_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import proa.onnx\n"
        "try: proa.onnx.load(b'')\n"
        f"except proa.errors.{UnavailableError.__name__} as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "proa[onnx]" in done.stdout


@pytest.mark.fuzz
def test_damaged_models_end_in_typed_errors() -> None:
    rng = np.random.default_rng(0)
    for message in (linear_model(), branching_model()):
        good = message.SerializeToString()
        for _ in range(400):
            data = bytearray(good)
            for at in rng.integers(0, len(data), rng.integers(1, 6)):
                data[at] = rng.integers(0, 256)
            if rng.random() < 0.2:
                del data[rng.integers(0, len(data)) :]
            with contextlib.suppress(proa.errors.Error):
                proa.onnx.load(bytes(data))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no such file.*absent\.onnx"):
        proa.onnx.load(tmp_path / "absent.onnx")
    weight = np.zeros((600, 3), np.float32)
    result = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [floats("x", 2, 600)],
        [floats("y", 2, 3)], {"w": weight},
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save_model(result, path, save_as_external_data=True, location="m.data")
    (tmp_path / "m.data").unlink()
    with pytest.raises(MissingFileError, match=r"no such file.*m\.data"):
        proa.onnx.load(path)


def test_words_are_counted_without_a_loop_over_numbers_of_the_model() -> None:
    attributes = {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 1 << 40,
        "max_skip_count": 1 << 40, "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2],
        "pool_int64s": [2, 3, 2, 5],
    }  # fmt: skip
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, [4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    message = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    layer = proa.onnx.load(message)
    found = layer(proa.to_tensor(np.asarray([2, 3, 5, 2])))
    np.testing.assert_array_equal(found.numpy(), [2, 1, 1])  # 2 .. 5 with one between
