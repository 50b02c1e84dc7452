"""Published ONNX models against onnxruntime: eager, and converted for both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa_lite
from proa.cli import main
from proa_inference import Config, create_predictor

pytestmark = pytest.mark.full

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from .models import MODELS, Arrays, Model, model_file, noise, text_line  # noqa: E402

PROVIDERS = ["CPUExecutionProvider"]


def reference(path: Path, inputs: Arrays) -> list[Any]:
    session = onnxruntime.InferenceSession(path, providers=PROVIDERS)
    names = [i.name for i in session.get_inputs()]
    return list(session.run(None, {name: inputs[name] for name in names}))


def eager(layer: Any, inputs: Arrays) -> list[Any]:
    with proa.no_grad():
        found = layer(*[proa.to_tensor(inputs[i.name]) for i in layer.inputs])
    results = found if isinstance(found, tuple) else (found,)
    return [t.numpy() for t in results]


def compare(found: list[Any], expected: list[Any]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def check(model: Model, found: list[Any], expected: list[Any]) -> None:
    """Compare tensors and what a user of the model takes from them."""
    compare(found, expected)
    decided = model.decide(found)
    np.testing.assert_array_equal(decided, model.decide(expected))
    if model.decision is not None:
        assert decided == model.decision


def converted(model: Model, path: Path, target: Path) -> str:
    """The model as `proa convert` writes it."""
    fixed = [f"--fix={name}={value}" for name, value in model.fixed.items()]
    shapes = [
        f"--shape={name}={','.join(map(str, shape))}"
        for name, shape in model.shapes.items()
    ]
    assert main(["convert", str(path), str(target), *fixed, *shapes]) == 0
    return str(target)


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_gives_the_references_results(
    name: str, tmp_path: Path
) -> None:
    model = MODELS[name]
    path, inputs = model_file(model, tmp_path), model.inputs()
    expected = reference(path, {**inputs, **model.fixed})
    check(model, eager(proa.onnx.load(path, model.fixed), inputs), expected)
    file = converted(model, path, tmp_path / "model.proa")
    server: Any = create_predictor(Config(file))
    # The mobile runtime has all operators of these models: none is left out.
    small: Any = proa_lite.create_predictor(proa_lite.Config(file))
    for predictor in (server, small):
        given = [inputs[n] for n in predictor.get_input_names()]
        check(model, predictor.run(given), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_survives_the_round_trip(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    path, inputs = model_file(model, tmp_path), model.inputs()
    expected = reference(path, {**inputs, **model.fixed})
    layer = proa.onnx.load(path, model.fixed)
    for opset in (9, 13, 21):
        again = tmp_path / f"again{opset}.onnx"
        specs = layer.specs(model.shapes)
        proa.onnx.export(layer, again, specs, opset_version=opset)
        check(model, reference(again, inputs), expected)
    check(model, eager(proa.onnx.load(again), inputs), expected)


def test_a_converted_model_takes_sizes_that_the_model_leaves_symbolic(
    tmp_path: Path,
) -> None:
    model = MODELS["text-recognition"]
    path = model_file(model, tmp_path)
    file = converted(model, path, tmp_path / "model.proa")
    predictor = create_predictor(Config(file))
    for width, count in ((160, 1), (320, 2), (96, 3)):
        x = np.repeat(text_line(width, 48, "brown fox"), count, 0)
        compare(predictor.run([x]), reference(path, {"x": x}))


LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize("file", sorted(p.name for p in LIGHT.glob("light_*.onnx")))
def test_a_classic_network_gives_the_references_results(
    file: str, tmp_path: Path
) -> None:
    layer = proa.onnx.load(LIGHT / file)
    (info,) = layer.inputs
    inputs = {info.name: noise(*info.shape)}
    expected = reference(LIGHT / file, inputs)
    compare(eager(layer, inputs), expected)
    again = tmp_path / "again.onnx"
    proa.onnx.export(layer, again, layer.input_spec, opset_version=13)
    compare(reference(again, inputs), expected)
