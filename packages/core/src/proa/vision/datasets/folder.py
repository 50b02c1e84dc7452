"""Images in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError
from proa.io import Dataset
from proa.vision.backends import image_load

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


def _load(path: str) -> Any:
    image = image_load(path)
    return image.convert("RGB") if hasattr(image, "convert") else image


def _chooser(
    where: str,
    extensions: Sequence[str] | None,
    is_valid_file: Callable[[str], bool] | None,
) -> Callable[[str], bool]:
    if extensions is not None and is_valid_file is not None:
        raise InvalidArgumentError(
            f"[{where}] expected at most one of extensions and is_valid_file, got both"
        )
    if is_valid_file is not None:
        return is_valid_file
    endings = tuple(e.lower() for e in extensions or IMG_EXTENSIONS)
    return lambda path: path.lower().endswith(endings)


def _files(folder: Path, accept: Callable[[str], bool]) -> list[str]:
    """Accepted files below the folder, in order."""
    found = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        found += [os.path.join(place, name) for name in sorted(names)]
    return [path for path in found if accept(path)]


class DatasetFolder(Dataset[tuple[Any, int]]):
    """Samples in one folder for each class: ``root/CLASS/**/FILE``.

    Classes are numbered in the order of their names: ``classes`` lists them,
    ``class_to_idx`` numbers them, ``samples`` lists (path, number), ``targets`` the
    numbers.

    Args:
        root: The folder of folders.
        loader: Called with a path, gives the sample; by default an RGB image.
        extensions: Endings of the files to take; by default those of images.
        transform: Called with each sample.
        is_valid_file: Called with a path, says whether to take it; instead of
            extensions.

    Raises:
        NotFoundError: If there is no such folder, class or file.
        InvalidArgumentError: If both extensions and is_valid_file are given.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], object] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[..., object] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ) -> None:
        self.root, self.transform = root, transform
        self.loader = loader or _load
        self.extensions = extensions or IMG_EXTENSIONS
        accept = _chooser("DatasetFolder", extensions, is_valid_file)
        if not Path(root).is_dir():
            raise NotFoundError(f"[DatasetFolder] root must be a folder, got {root}")
        self.classes = sorted(p.name for p in Path(root).iterdir() if p.is_dir())
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in _files(Path(root) / name, accept)
        ]
        if not self.samples:
            raise NotFoundError(
                f"[DatasetFolder] {root} must hold folders of {self.extensions}, "
                f"got {len(self.classes)} folders without any"
            )
        self.targets = [number for _, number in self.samples]

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        sample = self.loader(path)
        return sample if self.transform is None else self.transform(sample), target

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(Dataset[list[Any]]):
    """All samples below a folder, without labels; ``samples`` lists their paths.

    An item is a list of one sample. Arguments and errors are those of
    :class:`DatasetFolder`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], object] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[..., object] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ) -> None:
        self.root, self.transform = root, transform
        self.loader = loader or _load
        self.extensions = extensions or IMG_EXTENSIONS
        accept = _chooser("ImageFolder", extensions, is_valid_file)
        if not Path(root).is_dir():
            raise NotFoundError(f"[ImageFolder] root must be a folder, got {root}")
        self.samples = _files(Path(root), accept)
        if not self.samples:
            raise NotFoundError(
                f"[ImageFolder] {root} must hold files of {self.extensions}, got none"
            )

    def __getitem__(self, index: int) -> list[Any]:
        sample = self.loader(self.samples[index])
        return [sample if self.transform is None else self.transform(sample)]

    def __len__(self) -> int:
        return len(self.samples)
