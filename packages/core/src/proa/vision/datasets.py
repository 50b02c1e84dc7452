"""MNIST and Fashion-MNIST from local files in the idx format; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError
from proa.io import Dataset

__all__ = ["MNIST", "FashionMNIST", "read_idx"]


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """The array in an idx file of bytes, which may be compressed by gzip."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"[read_idx] the file must exist, got {path}") from None
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

    Files are looked for at the paths given, then in the folders
    ``$PROA_DATA_HOME/NAME``, ``/usr/share/datasets/NAME`` and ``~/.cache/proa/NAME``.

    Args:
        image_path: The idx file of images.
        label_path: The idx file of labels.
        mode: "train" or "test".
        transform: Called with each image, uint8 (28, 28); without one an image is
            float32 (28, 28), 0 to 255.
        download: Kept for callers; nothing is ever downloaded.
        backend: Kept for callers; images are NumPy arrays.
    """

    NAME = "mnist"
    _HELP = "put the four idx files of MNIST there"

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        if mode.lower() not in ("train", "test"):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] mode must be train or test, got {mode!r}"
            )
        self.mode = mode.lower()
        self.transform = transform
        stem = "train" if self.mode == "train" else "t10k"
        self.image_path = self._find(image_path, f"{stem}-images-idx3-ubyte")
        self.label_path = self._find(label_path, f"{stem}-labels-idx1-ubyte")
        self.images = read_idx(self.image_path)
        self.labels = read_idx(self.label_path)
        if self.images.ndim != 3 or len(self.images) != len(self.labels):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] there must be a label for each image, got "
                f"{self.images.shape} and {self.labels.shape}"
            )

    @classmethod
    def folders(cls) -> list[Path]:
        """Where files are looked for, in order."""
        home = os.environ.get("PROA_DATA_HOME")
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        return [
            *([Path(home) / cls.NAME, Path(home)] if home else []),
            Path("/usr/share/datasets") / cls.NAME,
            Path(cache) / "proa" / cls.NAME,
        ]

    @classmethod
    def _find(cls, given: str | None, stem: str) -> Path:
        if given is not None:
            if not Path(given).is_file():
                raise NotFoundError(
                    f"[{cls.__name__}] the file must exist, got {given}"
                )
            return Path(given)
        for folder in cls.folders():
            for name in (f"{stem}.gz", stem):
                if (folder / name).is_file():
                    return folder / name
        looked = ", ".join(map(str, cls.folders()))
        raise NotFoundError(
            f"[{cls.__name__}] {stem}.gz must lie in one of: {looked}; got none. "
            f"Nothing is downloaded: {cls._HELP}, or give image_path and label_path."
        )

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image: Any = self.images[idx]
        label = self.labels[idx : idx + 1] if idx >= 0 else self.labels[[idx]]
        image = (
            image.astype(np.float32)
            if self.transform is None
            else self.transform(image)
        )
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
