"""MNIST and Fashion-MNIST from local files in the idx format; nothing is downloaded."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, MissingFileError
from proa.io import Dataset
from proa.io.local_files import data_folders, local_file
from proa.vision.backends import chosen_backend, from_array

__all__ = ["MNIST", "FashionMNIST", "read_idx"]


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """The array in an idx file of bytes, which may be compressed by gzip."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"[read_idx] no file at {path}") from None
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise InvalidArgumentError(
                f"[read_idx] {path} must be a whole gzip file, got: {error}"
            ) from None
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise InvalidArgumentError(
            f"[read_idx] {path} must begin as an idx file of bytes, got {data[:4]!r}"
        )
    start = 4 + 4 * data[3]
    shape = struct.unpack_from(f">{data[3]}I", data, 4) if len(data) >= start else ()
    if not shape or len(data) - start != int(np.prod(shape)):
        raise InvalidArgumentError(
            f"[read_idx] {path} must hold {shape or 'its dimensions'} bytes, "
            f"got {len(data) - start}"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


class MNIST(Dataset[tuple[Any, Any]]):
    """Handwritten digits: 28 x 28 grey images and labels 0 to 9.

    Files are looked for at the paths given, then where :func:`data_folders` says.

    Args:
        image_path: The idx file of images.
        label_path: The idx file of labels.
        mode: "train" or "test".
        transform: Called with each image.
        download: Kept for callers; nothing is ever downloaded.
        backend: "pil": images are PIL images; "cv2": arrays (28, 28), float32 0 to 255
            after the transform; "tensor": tensors (1, 28, 28) of bytes. None: the
            backend in use.

    Raises:
        NotFoundError: If a file is not there.
        InvalidArgumentError: If a file is damaged.
        UnavailableError: For images of the backend "pil" without Pillow.
    """

    NAME = "mnist"
    _HELP = "put the four idx files of MNIST there"

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Callable[..., object] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        if mode.lower() not in ("train", "test"):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] mode must be train or test, got {mode!r}"
            )
        self.mode = mode.lower()
        self.transform = transform
        self.backend = chosen_backend(backend, type(self).__name__)
        stem = "train" if self.mode == "train" else "t10k"
        self.image_path = self._find(
            image_path, "image_path", f"{stem}-images-idx3-ubyte"
        )
        self.label_path = self._find(
            label_path, "label_path", f"{stem}-labels-idx1-ubyte"
        )
        self.images = read_idx(self.image_path)
        self.labels = read_idx(self.label_path)
        if self.images.ndim != 3 or len(self.images) != len(self.labels):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] expected one label for each image, got "
                f"{self.images.shape} and {self.labels.shape}"
            )

    @classmethod
    def folders(cls) -> list[Path]:
        """Where files are looked for, in order."""
        return data_folders(cls.NAME)

    @classmethod
    def _find(cls, given: str | None, argument: str, stem: str) -> Path:
        return local_file(
            cls.__name__, argument, given, cls.NAME, [f"{stem}.gz", stem],
            cls._HELP, cls.folders(),
        )  # fmt: skip

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        label = self.labels[idx : idx + 1] if idx >= 0 else self.labels[[idx]]
        image: Any = from_array(self.images[idx], self.backend)
        if self.transform is not None:
            image = self.transform(image)
        if isinstance(image, np.ndarray):
            image = image.astype(np.float32)
        return image, label.astype(np.int64)

    def __len__(self) -> int:
        return len(self.labels)


class FashionMNIST(MNIST):
    """Pictures of clothing (Xiao et al., 2017), in the form of MNIST."""

    NAME = "fashion-mnist"
    _HELP = (
        "install Debian's package dataset-fashion-mnist, or without root "
        "`apt-get download dataset-fashion-mnist`, `dpkg -x FILE.deb FOLDER` and set "
        "PROA_DATA_HOME=FOLDER/usr/share/datasets"
    )
