"""Anchors and prior boxes, and boxes relative to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import proa
from proa._core import Tensor, ops
from proa.migrate.fluid.host_calls import Array, Like, on_host
from proa.nn.sequences import RowSequences, row_numbers_of
from proa.static.building import as_variable
from proa.static.nn.sequence_arguments import sequences_of, with_sequences
from proa.tensor.creation import as_tensor

__all__ = [
    "anchor_generator", "box_clip", "box_decoder_and_assign", "density_prior_box",
    "polygon_box_transform",
]  # fmt: skip

Sizes = Sequence[float]


def _listed(value: Any) -> list[float]:
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else [value]


def _of_sizes(
    make: Callable[..., tuple[Array, Array]], inputs: Sequence[Tensor], count: int
) -> tuple[Tensor, Tensor]:
    """Boxes and variances (H, W, count, 4), which follow from the inputs' shapes; at
    once if these are known.
    """
    cells = [int(n) for n in inputs[0].shape[2:]]
    if all(int(n) >= 0 for x in inputs for n in x.shape[2:]):
        result = make(*([int(n) for n in x.shape] for x in inputs))
        if proa.in_dynamic_mode():
            return as_tensor(result[0]), as_tensor(result[1])
        first, second = (as_variable("fluid", as_tensor(m)) for m in result)
        return first, second
    shape = (*(n if n >= 0 else None for n in cells), count, 4)
    found = on_host(
        lambda *arrays: make(*(list(a.shape) for a in arrays)),
        inputs, [Like("float32", shape)] * 2,
    )  # fmt: skip
    return found[0], found[1]


def _with_variances(boxes: Array, variance: Sizes) -> tuple[Array, Array]:
    spread = np.broadcast_to(np.asarray(variance, "float32"), boxes.shape)
    return boxes.astype("float32"), spread.copy()


def anchor_generator(
    input: Tensor,
    anchor_sizes: Any = None,
    aspect_ratios: Any = None,
    variance: Sizes = (0.1, 0.1, 0.2, 0.2),
    stride: Sizes | None = None,
    offset: float = 0.5,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The anchors of Faster R-CNN at each cell of a feature map, and their variances.

    Args:
        input: The features (N, C, H, W), of which the shape is used.
        anchor_sizes: Sides of squares in pixels.
        aspect_ratios: Heights over widths.
        variance: Four numbers given with every anchor.
        stride: Width and height of a cell in pixels.
        offset: Where an anchor's centre is in its cell.
        name: Has no meaning here.

    Returns:
        Two tensors (H, W, ratios * sizes, 4).
    """
    sizes, ratios = _listed(anchor_sizes), _listed(aspect_ratios)
    wide, high = _listed(stride if stride is not None else [16.0, 16.0])

    def make(shape: list[int]) -> tuple[Array, Array]:
        spans = []
        for ratio in ratios:
            width = np.round(np.sqrt(wide * high / ratio))
            height = np.round(width * ratio)
            spans += [(size / wide * width, size / high * height) for size in sizes]
        half = (np.asarray(spans, "float32") - 1) / 2
        x = np.arange(shape[3]) * wide + offset * (wide - 1)
        y = np.arange(shape[2]) * high + offset * (high - 1)
        middle = np.stack(np.meshgrid(x, y), -1)[:, :, None]
        return _with_variances(
            np.concatenate([middle - half, middle + half], -1), variance
        )

    return _of_sizes(make, [input], len(sizes) * len(ratios))


def density_prior_box(
    input: Tensor,
    image: Tensor,
    densities: Sequence[int] | None = None,
    fixed_sizes: Sizes | None = None,
    fixed_ratios: Sizes | None = None,
    variance: Sizes = (0.1, 0.1, 0.2, 0.2),
    clip: bool = False,
    steps: Sizes = (0.0, 0.0),
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Prior boxes of which each cell has several, shifted (FaceBoxes, 2017).

    Args:
        input: The features (N, C, H, W), of which the shape is used.
        image: The image (N, C, H', W'), of which the shape is used.
        densities: For each size, how many boxes there are along an axis.
        fixed_sizes: The boxes' sizes in pixels.
        fixed_ratios: Their ratios of width to height.
        variance: Four numbers given with every box.
        clip: Kept for callers: boxes always end at the image's border.
        steps: Width and height of a cell in pixels; 0: the image's over the map's.
        offset: Where the boxes' middle is in its cell.
        flatten_to_2d: Whether the result has the shape (boxes, 4).
        name: Has no meaning here.

    Returns:
        Boxes in parts of the image and variances, (H, W, boxes of a cell, 4).
    """
    sizes, ratios = _listed(fixed_sizes), _listed(fixed_ratios)
    counts = [int(n) for n in densities or ()]

    def make(shape: list[int], whole: list[int]) -> tuple[Array, Array]:
        extent = np.asarray([whole[3], whole[2]], "float64")
        cell = [s or extent[i] / shape[3 - i] for i, s in enumerate(steps)]
        mean = int((cell[0] + cell[1]) * 0.5)
        shifts, halves = [], []
        for size, count in zip(sizes, counts, strict=True):
            shift = int(mean / count)
            first = -mean / 2.0 + shift / 2.0
            for ratio in ratios:
                for i in range(count):
                    for j in range(count):
                        shifts.append((first + j * shift, first + i * shift))
                        halves.append((size * ratio**0.5 / 2, size / ratio**0.5 / 2))
        x = (np.arange(shape[3]) + offset) * cell[0]
        y = (np.arange(shape[2]) + offset) * cell[1]
        middle = np.stack(np.meshgrid(x, y), -1)[:, :, None] + np.asarray(shifts)
        half = np.asarray(halves)
        boxes = np.concatenate([(middle - half) / extent, (middle + half) / extent], -1)
        return _with_variances(np.clip(boxes, 0, 1), variance)

    count = len(ratios) * sum(n * n for n in counts)
    found = _of_sizes(make, [input, image], count)
    if not flatten_to_2d:
        return found
    boxes, variances = (proa.reshape(t, [-1, 4]) for t in found)
    return boxes, variances


def polygon_box_transform(input: Tensor, name: str | None = None) -> Tensor:
    """Offsets of corners as places: 4 * the cell's column (of even channels) or row
    minus the offset. The input is (N, 2 * corners, H, W).
    """
    column = ops.cast(proa.arange(input.shape[3]), dtype=input.dtype)
    row = ops.cast(proa.arange(input.shape[2]), dtype=input.dtype)
    even = np.asarray([[[1.0 - c % 2]] for c in range(int(input.shape[1]))])
    across = as_tensor(even.astype("float32"))
    place = ops.add(
        ops.mul(across, column),
        ops.mul(ops.sub(1.0, across), ops.unsqueeze(row, axis=[1])),
    )
    return ops.sub(ops.scale(place, scale=4.0), input)


def box_clip(input: Tensor, im_info: Tensor, name: str | None = None) -> Tensor:
    """Boxes within their image.

    Args:
        input: Boxes (n, 4) or (n, classes, 4) as sequences, one for each image.
        im_info: Height, width and scale of each image, (images, 3); boxes are those of
            the image before it was scaled.
        name: Has no meaning here.
    """
    own = sequences_of("box_clip", input)
    info = ops.gather(im_info, own.owners(), axis=0)
    high, wide, scale = (ops.slice(info, axes=[1], starts=[k], ends=[k + 1], steps=[1])
                         for k in range(3))  # fmt: skip
    limits = [ops.sub(proa.round(ops.div(side, scale)), 1.0) for side in (wide, high)]
    limit = ops.concat(*limits, *limits, axis=1)
    if input.ndim == 3:
        limit = ops.unsqueeze(limit, axis=[1])
    return with_sequences(ops.minimum(ops.maximum(input, 0.0), limit), own)


def box_decoder_and_assign(
    prior_box: Tensor,
    prior_box_var: Tensor,
    target_box: Tensor,
    box_score: Tensor,
    box_clip: float,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Boxes of every class, and of each the one of the best class but the first.

    Args:
        prior_box: (n, 4), whose last pixels belong to the boxes.
        prior_box_var: Four numbers that codes are multiplied with.
        target_box: Codes (n, 4 * classes).
        box_score: (n, classes).
        box_clip: The greatest logarithm of a ratio of sides.
        name: Has no meaning here.

    Returns:
        Boxes (n, 4 * classes), and (n, 4).
    """
    classes = int(box_score.shape[1])
    codes = proa.reshape(target_box, [-1, classes, 4])
    codes = ops.mul(codes, proa.reshape(prior_box_var, [-1, 1, 4]))
    low, high = (proa.unsqueeze(prior_box[:, k : k + 2], 1) for k in (0, 2))
    size = ops.add(ops.sub(high, low), 1.0)
    middle = ops.add(
        ops.mul(codes[:, :, :2], size), ops.add(low, ops.scale(size, scale=0.5))
    )
    log = ops.minimum(codes[:, :, 2:], float(box_clip))
    half = ops.scale(ops.mul(ops.exp(log), size), scale=0.5)
    boxes = ops.concat(
        ops.sub(middle, half), ops.sub(ops.add(middle, half), 1.0), axis=2
    )
    best = proa.argmax(box_score[:, 1:], axis=1) + 1
    rows = row_numbers_of(prior_box)
    chosen = ops.gather_nd(
        boxes, ops.stack(rows, ops.cast(best, dtype="int64"), axis=1)
    )
    return proa.reshape(boxes, [-1, 4 * classes]), chosen


def counts_of(boxes: Tensor) -> Tensor:
    """How many rows each image has, (images,) int32."""
    own: RowSequences = sequences_of("fluid", boxes)
    return ops.cast(own.lengths, dtype="int32")
