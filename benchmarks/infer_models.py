"""The networks of the suite infer, written as files for us and for peers.

Their weights are random: what is timed does not depend on them. Ours are `.proa`, peers
read what our exporter made of them, and int8 models made of that by onnxruntime's
quantizer, calibrated on the same arrays as ours.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networks
import numpy as np
from dialects import layers_dialect

import proa
from proa.static import InputSpec

Arrays = list[np.ndarray]
OPSET = 17
BATCHES = (1, 8)
#: Words of a sentence for the LSTM, and for BERT.
LSTM_WORDS, BERT_WORDS = 35, 128


@dataclass(frozen=True)
class Model:
    """A network and its inputs.

    Attributes:
        make: The layer, in evaluation mode.
        specs: Its inputs, whose batch is None.
        inputs: Makes them for a batch.
    """

    name: str
    make: Callable[[], Any]
    specs: Callable[[], list[InputSpec]]
    inputs: Callable[[np.random.Generator, int], Arrays]


def _vision(name: str) -> Model:
    def make() -> Any:
        network = getattr(proa.vision.models, name)()
        _settle(network)
        return network

    return _image(name, make, 224, 224)


def _settle(network: Any) -> None:
    """Give the norms the statistics of two noisy images, so that values stay finite."""
    rng = np.random.default_rng(1)
    network.train()
    with proa.no_grad():
        for _ in range(10):
            network(proa.to_tensor(_noise(rng, 2, 3, 64, 64)))
    network.eval()


def _image(name: str, make: Callable[[], Any], height: int, width: int) -> Model:
    return Model(
        name,
        make,
        lambda: [InputSpec([None, 3, height, width], "float32", "x")],
        lambda rng, batch: [_noise(rng, batch, 3, height, width)],
    )


def _ocr(name: str, file: str, height: int, width: int) -> Model:
    def make() -> Any:
        spec = importlib.util.find_spec("rapidocr_onnxruntime")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("the package rapidocr-onnxruntime")
        path = Path(spec.submodule_search_locations[0]) / "models" / file
        return proa.onnx.load(str(path))

    return _image(name, make, height, width)


def _noise(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _dialect(network: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: network(layers_dialect("proa", proa))


def _tokens(rng: np.random.Generator, batch: int) -> Arrays:
    words = rng.integers(0, 30522, (batch, BERT_WORDS))
    places = np.broadcast_to(np.arange(BERT_WORDS), words.shape).copy()
    return [words, places, np.zeros_like(words)]


def _features(rng: np.random.Generator, batch: int) -> Arrays:
    return [rng.integers(0, 1_000_000, (batch, 26)), _noise(rng, batch, 13)]


MODELS = [
    _vision("resnet50"),
    _vision("mobilenet_v1"),
    _vision("mobilenet_v2"),
    _vision("mobilenet_v3_large"),
    Model("bert_base", _dialect(networks.bert_base),
          lambda: [InputSpec([None, BERT_WORDS], "int64", n)
                   for n in ("words", "places", "kinds")], _tokens),
    Model("lstm", _dialect(networks.lstm_model),
          lambda: [InputSpec([None, LSTM_WORDS], "int64", "words")],
          lambda rng, batch: [rng.integers(0, 10000, (batch, LSTM_WORDS))]),
    Model("wide_deep", _dialect(networks.wide_deep),
          lambda: [InputSpec([None, 26], "int64", "values"),
                   InputSpec([None, 13], "float32", "numbers")], _features),
    _ocr("ocr_det", "ch_PP-OCRv4_det_infer.onnx", 640, 640),
    _ocr("ocr_rec", "ch_PP-OCRv4_rec_infer.onnx", 48, 320),
]  # fmt: skip
BY_NAME = {model.name: model for model in MODELS}


@dataclass(frozen=True)
class Files:
    """A model on disk, in float32 or int8."""

    proa: Path
    onnx: Path


def files_of(model: Model, precision: str, folder: Path) -> Files:
    """The model's files, written if they are not there.

    Args:
        model: Which.
        precision: "int8", or "fp32" and "bf16", which are one file.
        folder: Where; files that it has are used as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    suffix = ".int8" if precision == "int8" else ""
    found = Files(
        folder / f"{model.name}{suffix}.proa", folder / f"{model.name}{suffix}.onnx"
    )
    if not (found.proa.exists() and found.onnx.exists()):
        proa.seed(0)
        network = model.make()
        network.eval()
        if suffix:
            plain = files_of(model, "fp32", folder)
            _write_int8(model, network, plain, found)
        else:
            specs = model.specs()
            proa.onnx.export(network, found.onnx, specs, opset_version=OPSET)
            proa.jit.save(network, os.fspath(found.proa), specs)
    return found


def _calibration(model: Model) -> list[Arrays]:
    rng = np.random.default_rng(2)
    return [model.inputs(rng, 1) for _ in range(4)]


def _write_int8(model: Model, network: Any, plain: Files, found: Files) -> None:
    import proa_slim

    batches = _calibration(model)
    result = proa_slim.quant_post_static(network, model.specs(), batches)
    result.save(os.fspath(found.proa))
    try:
        _quantize_onnx(model, batches, plain.onnx, found.onnx)
    except ImportError:
        found.onnx.touch()  # without onnxruntime there is no one to read it


def _quantize_onnx(
    model: Model, batches: Sequence[Arrays], source: Path, target: Path
) -> None:
    from onnxruntime import quantization

    names = [spec.name for spec in model.specs()]

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(batches)

        def get_next(self) -> dict[str, np.ndarray] | None:
            arrays = next(self._left, None)
            return None if arrays is None else dict(zip(names, arrays, strict=True))

    prepared = target.with_suffix(".prepared.onnx")
    quantization.shape_inference.quant_pre_process(
        os.fspath(source), os.fspath(prepared), skip_symbolic_shape=True
    )
    quantization.quantize_static(
        os.fspath(prepared),
        os.fspath(target),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )
    prepared.unlink()
