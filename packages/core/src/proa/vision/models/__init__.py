"""Networks for images."""

from __future__ import annotations

from proa.vision.models.lenet import LeNet
from proa.vision.models.resnet import (
    ResNet,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
)

__all__ = [
    "LeNet", "ResNet", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50",
]  # fmt: skip
