"""The heads of a single-shot detector in static graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.static.building import as_variable
from proa.static.nn.conv import conv2d
from proa.static.state import require_static
from proa.vision.ops import prior_box

__all__ = ["multi_box_head"]


def _sizes_of_ratios(
    count: int, base_size: float, min_ratio: float, max_ratio: float
) -> tuple[list[float], list[float]]:
    """Least and greatest sizes of boxes: 10 % of the image at the first feature map,
    then even steps from min_ratio % to max_ratio %.
    """
    step = int((max_ratio - min_ratio) // (count - 2)) if count > 2 else 1
    ratios = range(int(min_ratio), int(max_ratio) + 1, max(step, 1))
    lower = [base_size * 0.1, *(base_size * r / 100.0 for r in ratios)]
    upper = [base_size * 0.2, *(base_size * (r + step) / 100.0 for r in ratios)]
    return lower, upper


def _of_each(what: str, given: Any, count: int) -> list[Any]:
    """An argument for each feature map."""
    found = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(found) < count:
        raise InvalidArgumentError(
            f"[static.nn.multi_box_head] expected {what} for each of {count} inputs, "
            f"got {len(found)}"
        )
    return found


def multi_box_head(
    inputs: Sequence[Tensor],
    image: Tensor,
    base_size: float,
    num_classes: int,
    aspect_ratios: Sequence[Any],
    min_ratio: float | None = None,
    max_ratio: float | None = None,
    min_sizes: Sequence[Any] | None = None,
    max_sizes: Sequence[Any] | None = None,
    steps: Sequence[float] | None = None,
    step_w: Sequence[float] | None = None,
    step_h: Sequence[float] | None = None,
    offset: float = 0.5,
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = True,
    clip: bool = False,
    kernel_size: int = 1,
    pad: int = 0,
    stride: int = 1,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Places and classes of boxes at every cell of feature maps: the heads of an SSD.

    Each map has the boxes of `vision.ops.prior_box`; one convolution gives their
    places, another one the scores of their classes (Liu et al., 2016).

    Args:
        inputs: Feature maps (N, C, H, W).
        image: The image (N, C, H, W).
        base_size: Size of the image, of which ratios are percents.
        num_classes: How many classes there are.
        aspect_ratios: For each map, ratios of boxes' widths to their heights.
        min_ratio: With max_ratio, the least and greatest size of boxes in percent, from
            which min_sizes and max_sizes follow; for more than two maps.
        max_ratio: See min_ratio.
        min_sizes: For each map, the least sizes of boxes.
        max_sizes: For each map, the greatest ones.
        steps: For each map, the distance of boxes; 0 follows from the sizes.
        step_w: The same across alone; with step_h.
        step_h: The same down alone.
        offset: Where boxes are in their cells.
        variance: What places are multiplied by.
        flip: Whether reciprocals of aspect ratios are taken, too.
        clip: Whether boxes end at the image's border.
        kernel_size: Size of the convolutions.
        pad: Padding of the convolutions.
        stride: Stride of the convolutions.
        name: Has no meaning here.
        min_max_aspect_ratios_order: As `prior_box` has it.

    Returns:
        Places (N, boxes, 4), scores (N, boxes, num_classes), and boxes and variances
        (boxes, 4).

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If there is not an argument for each map.
    """
    require_static("nn.multi_box_head")
    count = len(inputs)
    small, large = min_sizes, max_sizes
    if small is None:
        if count <= 2 or min_ratio is None or max_ratio is None:
            raise InvalidArgumentError(
                "[static.nn.multi_box_head] expected min_sizes, or min_ratio and "
                f"max_ratio of more than two inputs, got {count} inputs, "
                f"min_ratio={min_ratio} and max_ratio={max_ratio}"
            )
        small, large = _sizes_of_ratios(count, base_size, min_ratio, max_ratio)
    across = _of_each("steps", steps if steps is not None else step_w or 0.0, count)
    down = _of_each("steps", steps if steps is not None else step_h or 0.0, count)
    lower = _of_each("min_sizes", small, count)
    upper = _of_each("max_sizes", large, count)
    ratios = _of_each("aspect_ratios", aspect_ratios, count)
    found: list[list[Tensor]] = [[], [], [], []]
    for i, x in enumerate(inputs):
        greatest = None if upper[i] is None else _listed(upper[i])
        boxes, variances = prior_box(
            x, image, _listed(lower[i]), greatest,
            _listed(ratios[i]), variance, flip, clip, (across[i], down[i]), offset,
            min_max_aspect_ratios_order,
        )  # fmt: skip
        per_cell = int(boxes.shape[2])
        for parts, width in ((found[0], 4), (found[1], num_classes)):
            y = conv2d(x, per_cell * width, kernel_size, stride, pad)
            y = ops.transpose(y, perm=[0, 2, 3, 1])
            parts.append(_boxes(y, width))
        found[2].append(ops.reshape(boxes, shape=[-1, 4]))
        found[3].append(ops.reshape(variances, shape=[-1, 4]))
    places, scores = (ops.concat(*parts, axis=1) for parts in found[:2])
    priors, spreads = (
        as_variable("nn.multi_box_head", ops.concat(*parts, axis=0))
        for parts in found[2:]
    )
    return places, scores, priors, spreads


def _listed(value: Any) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else [float(value)]


def _boxes(y: Tensor, width: int) -> Tensor:
    """(N, H, W, boxes * width) -> (N, H * W * boxes, width)."""
    flat = ops.flatten(y, start_axis=1, stop_axis=-1)
    return ops.reshape(flat, shape=[-1, int(flat.shape[1]) // width, width])
