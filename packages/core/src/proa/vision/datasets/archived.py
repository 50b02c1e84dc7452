"""Oxford flowers and Pascal VOC 2012 from their local archives."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError, UnavailableError
from proa.io import Dataset
from proa.io.archives import open_tar, tar_member
from proa.io.local_files import local_file
from proa.vision.backends import chosen_backend, from_pil
from proa.vision.transforms.image_types import pil


def _mode(mode: str, known: dict[str, str], where: str) -> str:
    if mode.lower() not in known:
        raise InvalidArgumentError(
            f"[{where}] mode must be one of {list(known)}, got {mode!r}"
        )
    return mode.lower()


class _TarImages:
    """Images of a tar file, read when they are requested.

    The archive is opened again in each worker process, since a file position is shared
    between processes.
    """

    def __init__(self, path: Path, where: str, backend: str) -> None:
        self.path, self.where, self.backend = path, where, backend
        self._open: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def content(self, name: str) -> bytes:
        import os

        if self._open is None or self._open[0] != os.getpid():
            self._open = (os.getpid(), open_tar(self.path, self.where))
        return tar_member(self._open[1], name, self.where)

    def image(self, name: str) -> Any:
        return from_pil(pil().open(io.BytesIO(self.content(name))), self.backend)


def _matrix(path: Path, key: str) -> Any:
    """A vector of a MATLAB file."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise UnavailableError(
            "[Flowers] SciPy must be installed to read .mat files: pip install scipy"
        ) from None
    try:
        return np.asarray(loadmat(path)[key]).ravel().astype(np.int64)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidArgumentError(
            f"[Flowers] {path} must be a MATLAB file with {key}, got: {error!r}"
        ) from None


class Flowers(Dataset[tuple[Any, Any]]):
    """Flowers of 102 kinds (Nilsback and Zisserman, 2008); labels are 1 to 102.

    As in Paddle, "train" is the large split that its authors call test.

    Args:
        data_file: ``102flowers.tgz``.
        label_file: ``imagelabels.mat``.
        setid_file: ``setid.mat``.
        mode: "train", "valid" or "test".
        transform: Called with each image.
        download: Kept for callers; nothing is ever downloaded.
        backend: "pil", "cv2" or "tensor"; None: the backend in use.

    Raises:
        NotFoundError: If a file or an image in the archive is not there.
        InvalidArgumentError: If a file is damaged.
        UnavailableError: Without SciPy, which reads .mat files, or Pillow.
    """

    _SPLITS = {"train": "tstid", "test": "trnid", "valid": "valid"}

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: Callable[..., object] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.mode = _mode(mode, self._SPLITS, "Flowers")
        self.transform = transform
        self.backend = chosen_backend(backend, "Flowers")
        self.data_file, self.label_file, self.setid_file = (
            local_file("Flowers", argument, given, "flowers", [file])
            for argument, given, file in (
                ("data_file", data_file, "102flowers.tgz"),
                ("label_file", label_file, "imagelabels.mat"),
                ("setid_file", setid_file, "setid.mat"),
            )
        )
        self.labels = _matrix(self.label_file, "labels")
        self.indexes = _matrix(self.setid_file, self._SPLITS[self.mode])
        self._images = _TarImages(self.data_file, "Flowers", self.backend)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        number = int(self.indexes[idx])
        image = self._images.image(f"jpg/image_{number:05d}.jpg")
        if self.transform is not None:
            image = self.transform(image)
        if isinstance(image, np.ndarray):
            image = image.astype(np.float32)
        return image, self.labels[number - 1 : number]

    def __len__(self) -> int:
        return len(self.indexes)


class VOC2012(Dataset[tuple[Any, Any]]):
    """Images and their segmentation (Pascal VOC 2012).

    As in Paddle, "train" is the list ``trainval``, "test" ``train`` and "valid"
    ``val``.

    Args:
        data_file: ``VOCtrainval_11-May-2012.tar``.
        mode: "train", "valid" or "test".
        transform: Called with each image.
        download: Kept for callers; nothing is ever downloaded.
        backend: "pil": an item is two PIL images; "cv2": arrays (H, W, 3), float32, and
            (H, W) of class numbers; "tensor": tensors of bytes. None: the backend in
            use.

    Raises:
        NotFoundError: If the archive or a file in it is not there.
        InvalidArgumentError: If it is damaged.
    """

    _LISTS = {"train": "trainval", "test": "train", "valid": "val"}
    _ROOT = "VOCdevkit/VOC2012"

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: Callable[..., object] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        self.mode = _mode(mode, self._LISTS, "VOC2012")
        self.transform = transform
        self.backend = chosen_backend(backend, "VOC2012")
        self.data_file = local_file(
            "VOC2012", "data_file", data_file, "voc2012",
            ["VOCtrainval_11-May-2012.tar"],
        )  # fmt: skip
        self._images = _TarImages(self.data_file, "VOC2012", self.backend)
        path = f"{self._ROOT}/ImageSets/Segmentation/{self._LISTS[self.mode]}.txt"
        self.names = self._images.content(path).decode().split()

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        name = self.names[idx]
        image = self._images.image(f"{self._ROOT}/JPEGImages/{name}.jpg")
        label = self._segmentation(f"{self._ROOT}/SegmentationClass/{name}.png")
        if self.transform is not None:
            image = self.transform(image)
        if isinstance(image, np.ndarray):
            image = image.astype(np.float32)
        return image, label

    def _segmentation(self, path: str) -> Any:
        """Class numbers are the palette's indices, so they are not made colours."""
        label = pil().open(io.BytesIO(self._images.content(path)))
        if self.backend == "pil":
            return label
        numbers = np.asarray(label)
        if self.backend == "cv2":
            return numbers
        from proa.tensor.creation import to_tensor

        return to_tensor(numbers[None].copy())

    def __len__(self) -> int:
        return len(self.names)
