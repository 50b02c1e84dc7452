"""Networks and losses of PaddleSeg train and are exported with proa as `paddle`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa

from .published import as_paddle, check_learning_and_export

#: What its modules import, and networks and losses do not call.
ABSENT = (
    "cv2", "filelock", "paddleseg.utils.download", "PIL", "requests",
    "scipy.ndimage.interpolation", "tqdm", "visualdl", "yaml",
)  # fmt: skip
#: A network, the arguments with which it is made, and its backbone.
NETWORKS: list[tuple[str, dict[str, Any], str | None]] = [
    ("BiSeNetV2", {}, None),
    ("FastSCNN", {}, None),
    ("FCN", {}, "HRNet_W18_Small_V1"),
    ("HarDNet", {}, None),
    ("OCRNet", {"backbone_indices": (0,)}, "HRNet_W18_Small_V1"),
    ("PPHumanSegLite", {}, None),
    ("STDCSeg", {}, "STDC1"),
    ("SegFormer_B0", {}, None),
    ("U2Netp", {}, None),
    ("UNet", {}, None),
]
EDGE = 64


@pytest.fixture(scope="module")
def seg() -> Iterator[None]:
    with as_paddle("paddleseg", ["paddleseg"], ABSENT, ".."):
        yield


@pytest.mark.full
@pytest.mark.parametrize(("name", "options", "backbone"), NETWORKS)
def test_a_published_network_learns_one_picture_and_is_exported(
    seg: None, name: str, options: dict[str, Any], backbone: str | None, tmp_path: Path
) -> None:
    importlib.import_module("paddleseg.models")
    manager: Any = importlib.import_module("paddleseg.cvlibs.manager")
    module: Any = importlib.import_module("paddleseg.models.losses")
    proa.seed(1)
    if backbone is not None:
        options = {**options, "backbone": manager.BACKBONES[backbone]()}
    network = manager.MODELS[name](num_classes=3, **options)
    criterion = module.CrossEntropyLoss()
    images = proa.randn([2, 3, EDGE, EDGE])
    labels = proa.to_tensor((images.numpy()[:, 0] > 0) + 1)
    optimizer = proa.optimizer.AdamW(0.002, parameters=network.parameters())
    check_learning_and_export(
        network,
        images,
        lambda logits: criterion(logits, labels),
        optimizer,
        6,
        tmp_path / "network",
        output_of=lambda outputs: outputs[0],
    )


def softmax(logits: Any) -> Any:
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.full
def test_losses_have_the_values_of_their_formulas(seg: None) -> None:
    losses: Any = importlib.import_module("paddleseg.models.losses")
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 3, (2, 8, 8))
    ignored = rng.random((2, 8, 8)) < 0.2
    hidden = np.where(ignored, 255, labels)
    given, valid = proa.to_tensor(logits), ~ignored
    chosen = np.take_along_axis(softmax(logits), labels[:, None], 1)[:, 0]
    entropy = losses.CrossEntropyLoss()(given, proa.to_tensor(hidden))
    want = -(np.log(chosen) * valid).mean() / valid.mean()
    np.testing.assert_allclose(entropy.item(), want, rtol=1e-4)
    # Each pixel's loss is weighed by (1 - p)^2.
    focal = losses.FocalLoss(gamma=2.0)(given, proa.to_tensor(labels))
    want = -((1 - chosen) ** 2 * np.log(chosen)).mean()
    np.testing.assert_allclose(focal.item(), want, rtol=1e-4)
