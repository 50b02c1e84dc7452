"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) from their local archives."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.io import Dataset
from proa.io.archives import open_tar, read_pickled_arrays, tar_member
from proa.io.local_files import local_file
from proa.vision.backends import chosen_backend, from_array


class Cifar10(Dataset[tuple[Any, Any]]):
    """Colour images of 32 x 32 in ten classes.

    Args:
        data_file: The archive in the Python form, ``cifar-10-python.tar.gz``; None
            looks for it in the data folders.
        mode: "train" (50,000 images) or "test" (10,000).
        transform: Called with each image.
        download: Kept for callers; nothing is ever downloaded.
        backend: "pil": images are PIL images; "cv2": arrays (32, 32, 3), red first,
            float32 0 to 255 after the transform; "tensor": tensors (3, 32, 32) of
            bytes. None: the backend in use.

    Raises:
        NotFoundError: If the archive or a file in it is not there.
        InvalidArgumentError: If the archive is damaged or holds anything but arrays.
    """

    _ARCHIVE = "cifar-10-python.tar.gz"
    _FOLDER = "cifar-10-batches-py"
    _TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
    _TEST = ("test_batch",)
    _LABELS = b"labels"

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Callable[..., object] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        where = type(self).__name__
        if mode.lower() not in ("train", "test"):
            raise InvalidArgumentError(
                f"[{where}] mode must be train or test, got {mode!r}"
            )
        self.mode, self.transform = mode.lower(), transform
        self.backend = chosen_backend(backend, where)
        self.data_file = local_file(
            where, "data_file", data_file, "cifar", [self._ARCHIVE]
        )
        images, labels = [], []
        with open_tar(self.data_file, where) as archive:
            for name in self._TRAIN if self.mode == "train" else self._TEST:
                content = tar_member(archive, f"{self._FOLDER}/{name}", where)
                batch = read_pickled_arrays(io.BytesIO(content))
                images.append(np.asarray(batch[b"data"], np.uint8))
                labels.append(np.asarray(batch[self._LABELS], np.int64))
        self.labels = np.concatenate(labels)
        planes = np.concatenate(images).reshape(len(self.labels), 3, 32, 32)
        self.images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image = from_array(self.images[idx], self.backend)
        if self.transform is not None:
            image = self.transform(image)
        if isinstance(image, np.ndarray):
            image = image.astype(np.float32)
        return image, self.labels[idx]

    def __len__(self) -> int:
        return len(self.labels)


class Cifar100(Cifar10):
    """Colour images of 32 x 32 in a hundred classes; see :class:`Cifar10`."""

    _ARCHIVE = "cifar-100-python.tar.gz"
    _FOLDER = "cifar-100-python"
    _TRAIN = ("train",)
    _TEST = ("test",)
    _LABELS = b"fine_labels"
