"""Graphs as exporters write them for dynamic axes: saved and written again, they take
every size. What they must give is what the evaluator of the standard gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import UnimplementedError

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

make = onnx.helper.make_node
RNG = np.random.default_rng(0)


def model_of(nodes: list[Any], inputs: Any, constants: Any, kind: str = "FLOAT") -> Any:
    """A model with the output y; inputs are float32 of these shapes."""
    value, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    graph = onnx.helper.make_graph(
        nodes, "g",
        [value(name, types.FLOAT, shape) for name, shape in inputs.items()],
        [value("y", getattr(types, kind), None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def evaluated(model: Any, arrays: list[Any]) -> Any:
    evaluator = ReferenceEvaluator(model)
    (found,) = evaluator.run(
        None, dict(zip(evaluator.input_names, arrays, strict=True))
    )
    return found


def check(model: Any, folder: Path, calls: list[list[Any]]) -> None:
    """Loaded, saved, and written again; the last is loaded and saved, too."""
    layer = proa.onnx.load(model.SerializeToString())
    proa.jit.save(layer, folder / "m.proa", layer.input_spec)
    proa.onnx.export(layer, folder / "m", layer.input_spec, opset_version=17)
    saved, again = proa.jit.load(folder / "m.proa"), onnx.load(folder / "m.onnx")
    reloaded = proa.onnx.load(folder / "m.onnx")
    proa.jit.save(reloaded, folder / "r.proa", reloaded.input_spec)
    resaved = proa.jit.load(folder / "r.proa")
    for arrays in calls:
        want = evaluated(model, arrays)
        tensors = [proa.to_tensor(a) for a in arrays]
        found = [each(*tensors).numpy() for each in (layer, saved, resaved)]
        for got in (*found, evaluated(again, arrays)):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def images(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_an_expanded_shape_whose_places_of_minus_one_are_replaced(
    tmp_path: Path,
) -> None:
    # torch's `token.expand(batch, -1, -1)`
    nodes = [
        make("Shape", ["x"], ["sizes"], end=1),
        make("Concat", ["sizes", "rest"], ["wanted"], axis=0),
        make("Mul", ["ones", "minus"], ["unknown"]),
        make("Equal", ["wanted", "unknown"], ["is_unknown"]),
        make("Where", ["is_unknown", "ones", "wanted"], ["shape"]),
        make("Expand", ["token", "shape"], ["tokens"]),
        make("Concat", ["tokens", "x"], ["y"], axis=1),
    ]
    constants = {
        "rest": np.array([-1, -1]), "minus": np.array([-1]), "ones": np.ones(3, "i8"),
        "token": images(1, 1, 4),
    }  # fmt: skip
    model = model_of(nodes, {"x": ["n", "t", 4]}, constants)
    check(model, tmp_path, [[images(2, 3, 4)], [images(5, 1, 4)]])


@pytest.mark.parametrize(
    ("start", "end"), [("zero", "size"), ("one", "size"), ("size", "last"),
                       ("minus_size", "last"), ("zero", "minus_size")],
)  # fmt: skip
def test_a_slice_as_long_as_another_array(start: str, end: str, tmp_path: Path) -> None:
    # `mask[:t]`, `mask[1:t]`, `mask[t:]`, `mask[-t:]`, `mask[:-t]`
    nodes = [
        make("Shape", ["x"], ["size"], start=1),
        make("Neg", ["size"], ["minus_size"]),
        make("Slice", ["mask", start, end, "axis"], ["part"]),
        make("ReduceSum", ["x", "axis"], ["sum"], keepdims=1),
        make("Add", ["part", "sum"], ["y"]),
    ]
    constants = {
        "zero": np.array([0]), "one": np.array([1]), "axis": np.array([1]),
        "last": np.array([2**63 - 1]), "mask": images(1, 9),
    }  # fmt: skip
    model = model_of(nodes, {"x": ["n", "t"]}, constants)
    check(model, tmp_path, [[images(2, 3)], [images(1, 7)]])


def padding_model(mode: str) -> Any:
    """x padded below to the height of like."""
    nodes = [
        make("Shape", ["x"], ["have"], start=2, end=3),
        make("Shape", ["like"], ["want"], start=2, end=3),
        make("Sub", ["want", "have"], ["more"]),
        make("Concat", ["none", "more", "zero"], ["pads"], axis=0),
        make("Pad", ["x", "pads", "value"], ["y"], mode=mode),
    ]
    constants = {
        "none": np.zeros(6, np.int64), "zero": np.zeros(1, np.int64),
        "value": np.float32(1.5),
    }  # fmt: skip
    shapes = {"x": [1, 2, "h", "w"], "like": [1, 2, "g", "w"]}
    return model_of(nodes, shapes, constants)


def test_an_image_is_padded_to_the_height_of_another(tmp_path: Path) -> None:
    calls = [[images(1, 2, h, 4), images(1, 2, g, 4)] for h, g in ((3, 5), (2, 9))]
    check(padding_model("constant"), tmp_path, calls)


def test_a_reflected_padding_of_symbolic_size_is_refused(tmp_path: Path) -> None:
    layer = proa.onnx.load(padding_model("reflect").SerializeToString())
    with pytest.raises(UnimplementedError, match="mode='reflect'"):
        proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)


@pytest.mark.parametrize(
    ("mode", "places"),
    [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
     ("linear", "asymmetric"), ("linear", "pytorch_half_pixel")],
)  # fmt: skip
def test_an_image_is_resized_to_another(mode: str, places: str, tmp_path: Path) -> None:
    nodes = [
        make("Shape", ["x"], ["channels"], end=2),
        make("Shape", ["like"], ["size"], start=2),
        make("Concat", ["channels", "size"], ["sizes"], axis=0),
        make("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, nearest_mode="floor",
             coordinate_transformation_mode=places),
    ]  # fmt: skip
    shapes = {"x": ["n", 2, "h", "w"], "like": [1, 1, "g", "v"]}
    model = model_of(nodes, shapes, {})
    calls = [
        [images(1, 2, 4, 6), images(1, 1, 8, 6)],
        [images(2, 2, 5, 7), images(1, 1, 3, 11)],
    ]
    check(model, tmp_path, calls)


def test_elements_over_a_threshold_are_picked(tmp_path: Path) -> None:
    # torch's `x[x > 0]`
    nodes = [
        make("Greater", ["x", "zero"], ["keep"]),
        make("NonZero", ["keep"], ["places"]),
        make("Transpose", ["places"], ["index"]),
        make("GatherND", ["x", "index"], ["y"]),
    ]
    model = model_of(nodes, {"x": ["n", 3, "m"]}, {"zero": np.float32(0)})
    check(model, tmp_path, [[images(2, 3, 4)], [images(1, 3, 7)]])


def test_rows_are_selected_by_a_condition(tmp_path: Path) -> None:
    nodes = [
        make("ReduceMax", ["x"], ["best"], axes=[1], keepdims=0),
        make("Greater", ["best", "limit"], ["keep"]),
        make("Compress", ["x", "keep"], ["y"], axis=0),
    ]
    model = model_of(nodes, {"x": ["n", 2]}, {"limit": np.float32(0.5)})
    check(model, tmp_path, [[images(9, 2)], [images(4, 2)]])


@pytest.mark.parametrize("operator", ["Min", "Max"])
def test_a_size_is_bounded_by_a_number(operator: str, tmp_path: Path) -> None:
    nodes = [
        make("Shape", ["x"], ["size"]),
        make(operator, ["size", "four"], ["count"]),
        make("Expand", ["one", "count"], ["y"]),
    ]
    constants = {"four": np.array([4]), "one": np.ones(1, np.float32)}
    model = model_of(nodes, {"x": ["n"]}, constants)
    check(model, tmp_path, [[images(3)], [images(6)]])


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_rows_are_written_at_indices_of_an_open_array(
    reduction: str, tmp_path: Path
) -> None:
    nodes = [make("ScatterND", ["x", "index", "rows"], ["y"], reduction=reduction)]
    constants = {"index": np.array([[1], [-1]]), "rows": images(2, 3)}
    model = model_of(nodes, {"x": ["n", 3]}, constants)
    check(model, tmp_path, [[images(4, 3)], [images(7, 3)]])


def test_suppression_that_was_exported_is_exported_again(tmp_path: Path) -> None:
    class Detector(proa.nn.Layer):
        def forward(self, boxes: Any, scores: Any) -> Any:
            return proa.vision.ops.nms(boxes, 0.4, scores, top_k=10)

    specs = [proa.static.InputSpec([None, 4], "float32", "boxes"),
             proa.static.InputSpec([None], "float32", "scores")]  # fmt: skip
    proa.onnx.export(Detector(), tmp_path / "first", specs, opset_version=17)
    calls = []
    for n in (30, 12):
        low = RNG.uniform(0, 10, (n, 2))
        boxes = np.concatenate([low, low + RNG.uniform(1, 6, (n, 2))], -1)
        scores = RNG.permutation(n) / n
        calls.append([boxes.astype(np.float32), scores.astype(np.float32)])
    check(onnx.load(tmp_path / "first.onnx"), tmp_path, calls)


def test_a_size_that_is_compared_with_a_number_is_compared_by_the_run(
    tmp_path: Path,
) -> None:
    nodes = [
        make("Shape", ["x"], ["size"], end=1),
        make("Equal", ["size", "three"], ["is_three"]),
        make("Where", ["is_three", "x", "zero"], ["y"]),
    ]
    constants = {"three": np.array([3]), "zero": np.float32([0])}
    model = model_of(nodes, {"x": ["n"]}, constants)
    check(model, tmp_path, [[images(3)], [images(4)]])


def test_a_slice_past_the_end_of_an_array_ends_with_it(tmp_path: Path) -> None:
    nodes = [
        make("Shape", ["x"], ["size"]),
        make("Slice", ["mask", "zero", "size"], ["y"]),
    ]
    constants = {"mask": images(4), "zero": np.array([0])}
    model = model_of(nodes, {"x": ["n"]}, constants)
    check(model, tmp_path, [[images(n)] for n in (3, 4, 9)])


@pytest.mark.parametrize("where", ["starts", "ends", "both"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_slice_by_the_size_of_another_array_is_limited(
    sign: int, where: str, tmp_path: Path
) -> None:
    nodes = [
        make("Shape", ["like"], ["size"], start=0, end=1),
        make("Mul", ["size", "sign"], ["n"]),
        make("Sub", ["n", "three"], ["less"]),
        make(
            "Slice",
            {"starts": ["x", "n", "far", "one"], "ends": ["x", "zero", "n", "one"],
             "both": ["x", "less", "n", "one"]}[where],
            ["y"],
        ),
    ]  # fmt: skip
    constants = {
        "sign": np.array([sign]), "three": np.array([3]), "one": np.array([1]),
        "zero": np.array([0]), "far": np.array([2**62]),
    }  # fmt: skip
    model = model_of(nodes, {"x": [2, "n"], "like": ["m", 1]}, constants)
    sizes = ((5, 2), (3, 4), (4, 4), (1, 1), (6, 9))
    check(model, tmp_path, [[images(2, n), images(m, 1)] for n, m in sizes])
