"""Public data sets from local files; nothing is downloaded."""

from proa.vision.datasets.archived import VOC2012, Flowers
from proa.vision.datasets.cifar import Cifar10, Cifar100
from proa.vision.datasets.folder import DatasetFolder, ImageFolder
from proa.vision.datasets.mnist import MNIST, FashionMNIST, read_idx

__all__ = [
    "MNIST", "VOC2012", "Cifar10", "Cifar100", "DatasetFolder", "FashionMNIST",
    "Flowers", "ImageFolder", "read_idx",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
