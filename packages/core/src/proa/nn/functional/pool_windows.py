"""Windows of pooling, and the operators over them. All is done over images.

A line is an image of one row. Windows of a volume are products of windows of each axis,
so a volume is pooled within its frames, which are taken as channels, and the result
along the depth:

    (N, C, D, H, W) -> (N, C * D, H', W') -> (N, C, D, H' * W') -> (N, C, D', H' * W')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn.functional.geometry import placement, split_axis
from proa.tensor.arguments import as_int

if TYPE_CHECKING:
    from proa.base.typing import OutputSizeLike, PaddingLike
    from proa.tensor.arguments import IntsLike

#: Attributes of a pooling operator: lists with one number (padding: two) for each axis.
PoolWindow = dict[str, list[int]]


def pool_window(
    where: str,
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None,
    padding: PaddingLike,
    data_format: str = "NCHW",
) -> PoolWindow:
    """The windows over x (N, C, spatial axes)."""
    kernel, steps, border, _ = placement(
        where, x.shape[2:], kernel_size, stride, padding, 1, data_format
    )
    for i, n in enumerate(border):
        if n >= kernel[i // 2]:
            raise InvalidArgumentError(
                f"[{where}] padding must be less than the kernel's {kernel}, "
                f"got {padding}"
            )
    return {"kernel": kernel, "stride": steps, "padding": border}


def adaptive_window(where: str, x: Tensor, output_size: OutputSizeLike) -> PoolWindow:
    """Windows that cover x; None keeps the size of an axis."""
    axes = x.ndim - 2
    wanted = output_size if isinstance(output_size, (list, tuple)) else [output_size]
    wanted = list(wanted) * axes if len(wanted) == 1 else wanted
    if len(wanted) != axes:
        raise InvalidArgumentError(
            f"[{where}] output_size must be one number or {axes}, got {output_size}"
        )
    size = [
        n if want is None else as_int(where, want)
        for n, want in zip(x.shape[2:], wanted, strict=True)
    ]
    if min(size) < 1:
        raise InvalidArgumentError(
            f"[{where}] output_size must be positive (None for a known size), "
            f"got {output_size}"
        )
    return {"size": size}


def _along(window: PoolWindow, first: int, last: int) -> PoolWindow:
    """The windows of axes [first, last)."""
    return {
        name: v[2 * first : 2 * last] if name == "padding" else v[first:last]
        for name, v in window.items()
    }


def _one_axis(window: PoolWindow, others: int, before: bool) -> PoolWindow:
    """Windows of one axis, with an axis of ``others`` elements that stays."""
    idle = {"kernel": [1], "stride": [1], "padding": [0, 0], "size": [others]}
    return {
        name: idle[name] + v if before else v + idle[name] for name, v in window.items()
    }


def _in_frames(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """Every frame of a volume by the row, and all as (N, C, D, H' * W')."""
    flat = ops.flatten(x, start_axis=1, stop_axis=2)
    y = getattr(ops, row)(flat, **_along(window, 1, 3), **flags)
    y = ops.flatten(y, start_axis=2, stop_axis=3)
    return split_axis(y, 1, x.shape[1:3])


def _size_of_frames(
    row: str, x: Tensor, window: PoolWindow, **flags: bool
) -> list[int]:
    """H' and W' that the row makes of a frame."""
    if "size" in window:
        return window["size"][1:]
    result = []
    for d in (1, 2):
        n, k, s = x.shape[2 + d], window["kernel"][d], window["stride"][d]
        low, high = window["padding"][2 * d : 2 * d + 2]
        if n < 0:
            result.append(-1)
            continue
        up = s - 1 if flags.get("ceil_mode") else 0
        count = (n + low + high - k + up) // s + 1
        result.append(count - (up > 0 and (count - 1) * s >= n + low))
    return result


def pool(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """The row over x (N, C, 1 to 3 axes)."""
    function = getattr(ops, row)
    if x.ndim == 3:
        image = ops.unsqueeze(x, axis=[2])
        y = function(image, **_one_axis(window, 1, True), **flags)
        return ops.squeeze(y, axis=[2])
    if x.ndim == 4:
        result: Tensor = function(x, **window, **flags)
        return result
    frames = _in_frames(row, x, window, **flags)
    depth = _one_axis(_along(window, 0, 1), frames.shape[3], False)
    size = _size_of_frames(row, x, window, **flags)
    return split_axis(function(frames, **depth, **flags), 3, size)


def max_indices(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """The index of each maximum within its (spatial) plane or volume."""
    index = f"{row}_index"
    if x.ndim < 5:
        return pool(index, x, window, **flags)
    frames = _in_frames(row, x, window, **flags)
    within = _in_frames(index, x, window, **flags)  # of its frame
    depth = _one_axis(_along(window, 0, 1), frames.shape[3], False)
    best = getattr(ops, index)(frames, **depth, **flags)  # d * (H' * W') + place there
    at = ops.take_along_axis(
        ops.flatten(within, start_axis=2, stop_axis=3),
        ops.flatten(best, start_axis=2, stop_axis=3), axis=2,
    )  # fmt: skip
    d = ops.floor_div(best, frames.shape[3])
    places = ops.add(ops.mul(d, x.shape[3] * x.shape[4]), ops.reshape_like(at, best))
    return split_axis(places, 3, _size_of_frames(row, x, window, **flags))
