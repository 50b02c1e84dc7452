"""Public data sets from local files; nothing is downloaded."""

from __future__ import annotations

from proa.vision.datasets.archived import VOC2012, Flowers
from proa.vision.datasets.cifar import Cifar10, Cifar100
from proa.vision.datasets.folder import DatasetFolder, ImageFolder
from proa.vision.datasets.mnist import MNIST, FashionMNIST, read_idx

__all__ = [
    "MNIST", "VOC2012", "Cifar10", "Cifar100", "DatasetFolder", "FashionMNIST",
    "Flowers", "ImageFolder", "read_idx",
]  # fmt: skip
