"""Prior boxes of a detector, and boxes encoded relative to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.creation import as_tensor

__all__ = ["box_coder", "prior_box"]


def _ratios(aspect_ratios: Sequence[float], flip: bool) -> list[float]:
    """1, then the others once, each with its reciprocal if requested."""
    found = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - r) > 1e-6 for r in found):
            found += [ratio, 1.0 / ratio] if flip else [ratio]
    return found


def _sizes(
    smallest: Sequence[float],
    largest: Sequence[float] | None,
    ratios: list[float],
    squares_first: bool,
) -> Any:
    """(P, 2): widths and heights at every cell."""
    sizes: list[tuple[float, float]] = []
    if not all(ratio > 0 for ratio in ratios):
        raise InvalidArgumentError(
            f"[prior_box] expected aspect_ratios greater than 0, got {ratios}"
        )
    for i, small in enumerate(smallest):
        shapes = [(small * r**0.5, small / r**0.5) for r in ratios]
        middle = [(small * largest[i]) ** 0.5] * 2 if largest else None
        extra = [(middle[0], middle[1])] if middle else []
        sizes += (
            [shapes[0], *extra, *shapes[1:]] if squares_first else [*shapes, *extra]
        )
    return np.asarray(sizes)


def prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Sequence[float] | float,
    max_sizes: Sequence[float] | float | None = None,
    aspect_ratios: Sequence[float] | float = (1.0,),
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The prior boxes of an SSD detector at each cell of a feature map.

    Args:
        input: The features (N, C, H, W); only the shape is used.
        image: The images (N, C, H', W'); only the shape is used.
        min_sizes: Sides of the small squares, in pixels.
        max_sizes: For each of them one more square, of side sqrt(min * max).
        aspect_ratios: Further shapes of the small squares' areas; 1 is always there.
        variance: Four numbers given with every box.
        flip: Whether the reciprocal ratios are taken too.
        clip: Whether boxes are cut to [0, 1].
        steps: Width and height of a cell in pixels; 0: the image's over the map's.
        offset: The position of a box's center in its cell.
        min_max_aspect_ratios_order: Whether the squares come first.

    Returns:
        Boxes (H, W, P, 4): x1, y1, x2, y2 in parts of the image, and the variances in
        the same shape; float32.

    Source: Liu et al., SSD: Single shot multibox detector, 2016.
    """
    if input.ndim != 4 or image.ndim != 4:
        must = "input and image must have rank 4"
        raise ShapeError("prior_box", must, [input.shape, image.shape])
    smallest, ratios = np.atleast_1d(min_sizes), np.atleast_1d(aspect_ratios)
    largest = None if max_sizes is None else np.atleast_1d(max_sizes).tolist()
    if largest and len(largest) != len(smallest):
        raise InvalidArgumentError(
            f"[prior_box] max_sizes must be as many as min_sizes, got {max_sizes}"
        )
    size = _sizes(
        smallest.tolist(),
        largest,
        _ratios(ratios.tolist(), flip),
        min_max_aspect_ratios_order,
    )
    cells, whole = input.shape[2:], image.shape[2:]
    middle = []
    for i in range(2):  # rows, columns
        step = float(steps[1 - i]) or whole[i] / cells[i]
        middle.append((np.arange(cells[i]) + offset) * step / whole[i])
    boxes = np.empty((*cells, len(size), 4))
    half = size / 2 / np.asarray(whole[::-1])
    for axis, place in [(0, middle[1][None, :, None]), (1, middle[0][:, None, None])]:
        boxes[..., axis] = place - half[:, axis]
        boxes[..., 2 + axis] = place + half[:, axis]
    if clip:
        boxes = np.clip(boxes, 0, 1)
    variances = np.broadcast_to(np.asarray(variance, np.float32), boxes.shape).copy()
    return as_tensor(boxes.astype(np.float32)), as_tensor(variances)


def _middle_and_size(boxes: Tensor, extra: float) -> tuple[Tensor, Tensor]:
    """Centres and sizes, each (.., 2), of boxes (.., 4)."""
    last = boxes.ndim - 1
    low, high = (
        ops.slice(boxes, axes=[last], starts=[s], ends=[s + 2], steps=[1])
        for s in (0, 2)
    )
    size = ops.add(ops.sub(high, low), extra)
    return ops.add(low, ops.scale(size, scale=0.5)), size


def box_coder(
    prior_box: Tensor,
    prior_box_var: Tensor | Sequence[float] | None,
    target_box: Tensor,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    name: str | None = None,
) -> Tensor:
    """Boxes encoded as offsets from prior boxes, or decoded from these.

    Encoded: (centre - prior centre) / prior size and log(size / prior size), over the
    variances. Decoding is the reverse.

    Args:
        prior_box: (M, 4): x1, y1, x2, y2.
        prior_box_var: Variances (M, 4), or four numbers, or None.
        target_box: Boxes (N, 4) to encode; codes (N, M, 4) to decode.
        code_type: encode_center_size or decode_center_size.
        box_normalized: Whether coordinates are parts of the image; else the last pixel
            belongs to a box.
        axis: For decoding: the axis of the codes that priors broadcast over.

    Returns:
        (N, M, 4).

    Raises:
        InvalidArgumentError: If code_type or axis is not as described.
    """
    if code_type not in ("encode_center_size", "decode_center_size"):
        raise InvalidArgumentError(
            "[box_coder] code_type must be encode_center_size or decode_center_size, "
            f"got {code_type!r}"
        )
    if axis not in (0, 1):
        raise InvalidArgumentError(f"[box_coder] axis must be 0 or 1, got {axis}")
    extra = 0.0 if box_normalized else 1.0
    variance = None
    if prior_box_var is not None:
        variance = as_tensor(prior_box_var).astype(prior_box.dtype)
        variance = ops.reshape(variance, shape=[-1, 4])
    encode = code_type == "encode_center_size"
    own = [0] if encode or axis == 0 else [1]
    middle, size = (
        ops.unsqueeze(t, axis=own) for t in _middle_and_size(prior_box, extra)
    )
    if variance is not None:
        variance = ops.unsqueeze(variance, axis=own)
    if encode:
        at, span = (
            ops.unsqueeze(t, axis=[1]) for t in _middle_and_size(target_box, extra)
        )
        code = ops.concat(
            ops.div(ops.sub(at, middle), size), ops.log(ops.abs(ops.div(span, size))),
            axis=2,
        )  # fmt: skip
        return code if variance is None else ops.div(code, variance)
    code = target_box if variance is None else ops.mul(target_box, variance)
    shift, log_scale = (
        ops.slice(code, axes=[2], starts=[s], ends=[s + 2], steps=[1]) for s in (0, 2)
    )
    at = ops.add(ops.mul(shift, size), middle)
    half = ops.scale(ops.mul(ops.exp(log_scale), size), scale=0.5)
    return ops.concat(ops.sub(at, half), ops.sub(ops.add(at, half), extra), axis=2)
