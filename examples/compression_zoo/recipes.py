"""The zoo: networks, and the recipes that compress them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import proa
import proa_slim as slim

from . import networks, searches
from .steps import Calibrate, Prune, Renew, Step, Train, TrainQuantized


@dataclass(frozen=True)
class Network:
    """A network before it is compressed.

    Attributes:
        task: One of `TASKS`.
        build: Makes a new one.
        epochs: It is trained for.
        rate: The greatest learning rate.
    """

    task: str
    build: Callable[[], proa.nn.Layer]
    epochs: int
    rate: float = 4e-3


@dataclass(frozen=True)
class Recipe:
    """How a network is compressed, and what that must give.

    Attributes:
        network: One of `NETWORKS`.
        steps: One after the other.
        method: In a word, for the table.
        flops: The greatest share of the multiply-adds that may be left.
        size: The greatest share of the file that may be left.
        drop: Points that the metric may lose; below zero what it must gain.
    """

    network: str
    steps: tuple[Step, ...]
    method: str
    flops: float = 1.0
    size: float = 1.0
    drop: float = 1.0


def _yolo(backbone: Callable[..., networks.Backbone], *args: Any) -> proa.nn.Layer:
    return networks.Yolo(backbone(*args), 48, anchors=2, classes=3)


#: Three digits and the background.
_PIXEL_CLASSES = 4

NETWORKS = {
    "resnet50": Network(
        "classification",
        lambda: networks.Classifier(networks.resnet50_vd(8), 10), 4,
    ),
    "mobilenet": Network(
        "classification", lambda: networks.Classifier(networks.mobilenet(24), 10), 3
    ),
    "yolov3-mobilenet": Network(
        "detection", lambda: _yolo(networks.mobilenet, 16), 5
    ),
    "yolov3-resnet50-vd-dcn": Network(
        "detection", lambda: _yolo(networks.resnet50_vd, 8, True), 3
    ),
    "blazeface": Network("finding", searches.BLAZE_SPACE.token2arch, 3),
    "deeplabv3p-mobilenetv2": Network(
        "segmentation", searches.DEEPLAB_SPACE.token2arch, 2
    ),
    "deeplabv3p-xception": Network(
        "segmentation",
        lambda: networks.DeepLab(networks.xception(12), 24, _PIXEL_CLASSES), 3,
    ),
    "deeplabv3p-xception-wide": Network(
        "segmentation",
        lambda: networks.DeepLab(networks.xception(20), 40, _PIXEL_CLASSES), 2,
    ),
    "fast-scnn": Network(
        "segmentation", lambda: networks.FastScnn(12, _PIXEL_CLASSES), 2
    ),
}  # fmt: skip

_CORRECTED = slim.QuantConfig(activation="mse", bias_correction=True)

RECIPES = {
    # --- classification
    "resnet50-ptq": Recipe(
        "resnet50", (Calibrate(),), "int8 after training", size=0.45
    ),
    "resnet50-qat": Recipe(
        "resnet50", (TrainQuantized(1, only_faster=True),), "int8 in training",
        size=0.6, drop=0.5,
    ),
    "resnet50-prune": Recipe(
        "resnet50", (Prune(0.5), Train(2)), "pruning", flops=0.5, size=0.7, drop=1.5
    ),
    "mobilenet-ptq": Recipe(
        "mobilenet", (Calibrate(_CORRECTED),), "int8 after training", size=0.45
    ),
    "mobilenet-qat": Recipe(
        "mobilenet", (TrainQuantized(1),), "int8 in training", size=0.45, drop=0.5
    ),
    "mobilenet-prune": Recipe(
        "mobilenet", (Prune(0.5), Train(2)), "pruning", flops=0.5, size=0.7, drop=1.5
    ),
    "mobilenet-distil": Recipe(
        "mobilenet", (Renew(), Train(3, 4e-3, "resnet50")), "distillation", drop=0.0
    ),
    # --- detection
    "yolov3-mobilenet-prune": Recipe(
        "yolov3-mobilenet", (Prune(0.6), Train(2)), "pruning",
        flops=0.4, size=0.6, drop=2.0,
    ),
    "yolov3-mobilenet-distil": Recipe(
        "yolov3-mobilenet",
        (Renew(), Train(5, 4e-3, "yolov3-resnet50-vd-dcn")), "distillation", drop=0.0,
    ),
    "yolov3-mobilenet-prune-distil": Recipe(
        "yolov3-mobilenet", (Prune(0.6), Train(2, teacher="yolov3-resnet50-vd-dcn")),
        "pruning, distillation", flops=0.4, size=0.6, drop=1.0,
    ),
    "yolov3-mobilenet-int8": Recipe(
        "yolov3-mobilenet", (Calibrate(_CORRECTED),), "int8 after training", size=0.5
    ),
    "yolov3-resnet50-vd-dcn-prune": Recipe(
        "yolov3-resnet50-vd-dcn", (Prune(0.4), Train(1)), "pruning",
        flops=0.6, size=0.8, drop=3.0,
    ),
    "yolov3-resnet50-vd-dcn-prune-distil": Recipe(
        "yolov3-resnet50-vd-dcn",
        (Prune(0.4), Train(1, teacher="yolov3-resnet50-vd-dcn")),
        "pruning, distillation", flops=0.6, size=0.8, drop=3.0,
    ),
    "blazeface-int8": Recipe(
        "blazeface", (TrainQuantized(1, only_faster=True),), "int8 in training",
        size=0.9,
    ),
    "blazeface-search": Recipe(
        "blazeface",
        (searches.OneShotSearch(searches.BLAZE_SPACE, 0.8, 5, 32), Train(3, 4e-3)),
        "search, one shot", flops=0.8, drop=3.0,
    ),
    # --- segmentation
    "deeplabv3p-mobilenetv2-int8": Recipe(
        "deeplabv3p-mobilenetv2", (Calibrate(_CORRECTED),), "int8 after training",
        size=0.5,
    ),
    "deeplabv3p-xception-int8": Recipe(
        "deeplabv3p-xception", (TrainQuantized(1, only_faster=True),),
        "int8 in training", size=0.85,
    ),
    "deeplabv3p-mobilenetv2-distil": Recipe(
        "deeplabv3p-mobilenetv2",
        (Renew(), Train(2, 4e-3, "deeplabv3p-xception-wide")), "distillation", drop=0.0,
    ),
    "deeplabv3p-xception-distil": Recipe(
        "deeplabv3p-xception", (Train(2, 2e-3, "deeplabv3p-xception-wide"),),
        "further training, distillation", drop=0.0,
    ),
    "deeplabv3p-mobilenetv2-search": Recipe(
        "deeplabv3p-mobilenetv2",
        (searches.TrialSearch(searches.DEEPLAB_SPACE, 0.5, 2400, 8), Train(2, 4e-3)),
        "search, short trials", flops=0.5, drop=2.0,
    ),
    "fast-scnn-prune": Recipe(
        "fast-scnn", (Prune(0.5), Train(2)), "pruning", flops=0.5, size=0.7, drop=2.0
    ),
}  # fmt: skip
