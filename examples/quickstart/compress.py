"""int8 three ways: calibrated by abs-max or KL, and trained for one epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from data import Images
from numpy.typing import NDArray
from train import BATCH, input_spec

import proa
import proa_slim as slim
from proa.vision.models import LeNet

CALIBRATION_BATCHES = 16


def compress(
    network: LeNet, images: Images, path: Path
) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Quantize `network` each way, save the KL-calibrated model to `path`.

    Returns the report and the logits of slim's own evaluation of the saved model.
    """
    network.eval()
    batches = [
        images.train_x[i * BATCH : (i + 1) * BATCH] for i in range(CALIBRATION_BATCHES)
    ]
    report: dict[str, Any] = {}
    logits: dict[str, NDArray[np.float32]] = {}
    for observer in ("abs_max", "kl"):
        model = slim.quant_post_static(
            network, input_spec(), batches, slim.QuantConfig(activation=observer)
        )
        logits[observer] = evaluate(model, images.test_x)
        report[f"ptq_{observer}"] = accuracy(logits[observer], images.test_y)
        if observer == "kl":
            report["layers"] = [layer.as_dict() for layer in model.report]
            model.save(str(path))
    trained = _quantization_aware(network, images)
    report["qat"] = accuracy(evaluate(trained, images.test_x), images.test_y)
    return report, logits["kl"]


def _quantization_aware(network: LeNet, images: Images) -> slim.QuantizedModel:
    qat = slim.QAT(slim.QuantConfig(activation="moving_average"))
    student = qat.quantize(network)
    model = proa.Model(student)
    model.prepare(
        proa.optimizer.Adam(learning_rate=1e-4, parameters=student.parameters()),
        proa.nn.CrossEntropyLoss(),
    )
    model.fit(
        proa.io.TensorDataset([images.train_x, images.train_y]),
        batch_size=BATCH,
        epochs=1,
        verbose=1,
    )
    return qat.convert(student, input_spec())


def evaluate(
    model: Any, x: NDArray[np.float32], batch: int = 500
) -> NDArray[np.float32]:
    """Logits of `model`, which takes and gives arrays, for all of `x`."""
    return np.concatenate([model(x[i : i + batch]) for i in range(0, len(x), batch)])


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Share of rows whose greatest logit is that of the label."""
    return float((logits.argmax(1) == labels).mean())
