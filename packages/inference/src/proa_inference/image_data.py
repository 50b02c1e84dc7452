"""Labelled images in one binary file, in bfloat16 or float32, for `proa-infer`.

All numbers are little-endian. The file holds, one after the other:

- 8 bytes, ``PROAIMG1``;
- five uint32: the format of an element (0 float32, 1 bfloat16), the number of images,
  channels, height, width;
- an int64 label for each image, -1 where there is none;
- the images, (count, channels, height, width), the last axis fastest.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from proa.base import files
from proa.errors import InvalidArgumentError
from proa.vision.datasets import DatasetFolder
from proa.vision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

_MAGIC = b"PROAIMG1"
_HEADER = struct.Struct("<8s5I")
_DTYPES = {"float32": 0, "bfloat16": 1}
_SIZES = {0: 4, 1: 2}
#: Mean and standard deviation of ImageNet's channels, of values in [0, 1].
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def write_image_data(
    path: str | os.PathLike[str],
    images: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    dtype: str = "bfloat16",
) -> None:
    """Write images (count, channels, height, width) and their labels.

    bfloat16 is rounded to nearest, to even between two; a NaN stays one.

    Raises:
        InvalidArgumentError: If images have not four axes, labels not one for each
            image, or dtype is neither "bfloat16" nor "float32".
    """
    x = np.ascontiguousarray(images, "<f4")
    where = "[write_image_data]"
    if dtype not in _DTYPES:
        raise InvalidArgumentError(
            f'{where} expected dtype "bfloat16" or "float32", got {dtype!r}'
        )
    if x.ndim != 4:
        raise InvalidArgumentError(
            f"{where} expected images (count, channels, height, width), got {x.shape}"
        )
    y = np.full(len(x), -1) if labels is None else np.asarray(labels)
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{where} expected {len(x)} labels, integers, got {y.dtype} {y.shape}"
        )
    data = x.tobytes() if dtype == "float32" else _rounded(x).tobytes()
    header = _HEADER.pack(_MAGIC, _DTYPES[dtype], *x.shape)
    Path(path).write_bytes(header + y.astype("<i8").tobytes() + data)


def read_image_data(path: str | os.PathLike[str]) -> tuple[Images, Labels]:
    """The images, widened to float32, and the labels of such a file.

    Raises:
        InvalidArgumentError: If it is no such file, or not as long as it says.
    """
    data = files.read(path, where="read_image_data")
    if len(data) < _HEADER.size or bytes(data[:8]) != _MAGIC:
        raise InvalidArgumentError(
            f"[read_image_data] expected a file that starts with {_MAGIC!r}, got {path}"
        )
    _, code, *shape = _HEADER.unpack(data[: _HEADER.size])
    first = _HEADER.size + 8 * shape[0]
    size = _SIZES.get(code, 0)
    elements = int(np.prod(shape, dtype=object))
    if size == 0 or len(data) != first + elements * size:
        raise InvalidArgumentError(
            f"[read_image_data] expected {first + elements * size} bytes of format 0 "
            f"or 1 for images {tuple(shape)}, got {len(data)} of {code}: {path}"
        )
    labels = np.frombuffer(data[_HEADER.size : first], "<i8").astype(np.int64)
    body = data[first:]
    if size == 4:
        return np.frombuffer(body, "<f4").reshape(shape).astype(np.float32), labels
    wide = np.frombuffer(body, "<u2").astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).reshape(shape), labels


def load_images(
    source: str | os.PathLike[str],
    size: int = 224,
    resize: int = 256,
    mean: Sequence[float] = MEAN,
    std: Sequence[float] = STD,
) -> tuple[Images, Labels]:
    """Images and labels of a folder with one folder of images for each class, or npz.

    Images of a folder are resized so that their shorter edge is `resize`, their middle
    of size x size is cropped, and their values, divided by 255, normalized by channel.
    A file ``.npz`` holds ``images``, as a model takes them, and maybe ``labels``.

    Raises:
        InvalidArgumentError: If there is no array ``images``.
        NotFoundError: If the folder holds no images.
    """
    if not Path(source).is_dir():
        with np.load(source, allow_pickle=False) as arrays:
            if "images" not in arrays:
                raise InvalidArgumentError(
                    f"[load_images] expected an array images, got {list(arrays)}"
                )
            images = arrays["images"].astype(np.float32)
            return images, _labels(arrays, len(images))
    steps = [Resize(resize), CenterCrop(size), ToTensor(), Normalize(mean, std)]
    found = DatasetFolder(source, transform=Compose(steps))
    pictures = [np.asarray(found[i][0].numpy(), np.float32) for i in range(len(found))]
    return np.stack(pictures), np.asarray(found.targets, np.int64)


def _labels(arrays: Any, count: int) -> Labels:
    if "labels" not in arrays:
        return np.full(count, -1, np.int64)
    labels: Labels = arrays["labels"].astype(np.int64)
    return labels


def _rounded(x: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = x.view("<u4")
    nearest = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, nearest).astype("<u2")


def accuracy(
    predict: Any, images: Images, labels: Labels, batch: int = 32
) -> dict[str, float]:
    """Shares of images whose label is the best class, and among the best five.

    Args:
        predict: Called with a list of one array of images; its first result holds the
            classes' scores.
        images: As a model takes them.
        labels: Of the images, none negative.
        batch: Images at a time.

    Raises:
        InvalidArgumentError: If there is no image, or one without a label.
    """
    if len(images) == 0 or (labels < 0).any():
        raise InvalidArgumentError(
            f"[accuracy] expected labelled images, got {len(images)} of which "
            f"{int((labels < 0).sum())} have no label"
        )
    first = five = 0
    for i in range(0, len(images), batch):
        scores = np.asarray(predict([images[i : i + batch]])[0])
        best = np.argsort(-scores.reshape(len(scores), -1), 1, kind="stable")[:, :5]
        hits = best == labels[i : i + batch, None]
        first, five = first + int(hits[:, 0].sum()), five + int(hits.any(1).sum())
    return {"top1": first / len(images), "top5": five / len(images)}
