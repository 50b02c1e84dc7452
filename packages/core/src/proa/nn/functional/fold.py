"""im2col and col2im: `unfold` and `fold`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import channels_first, per_axis, split_axis
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.tensor.arguments import IntsLike

__all__ = ["fold", "unfold"]


def _border(where: str, paddings: IntsLike) -> list[int]:
    """top, left, bottom, right from one, two or four numbers."""
    numbers = as_ints(where, paddings)
    if len(numbers) == 1:
        numbers = numbers * 4
    elif len(numbers) == 2:
        numbers = numbers * 2
    if len(numbers) != 4 or min(numbers) < 0:
        raise InvalidArgumentError(
            f"[{where}] paddings must be 1, 2 or 4 numbers >= 0, got {paddings}"
        )
    return numbers


def _geometry(
    where: str, kernel: Any, strides: IntsLike, paddings: IntsLike, dilations: IntsLike
) -> tuple[list[int], list[int], list[int], list[int]]:
    if kernel is None:
        raise InvalidArgumentError(f"[{where}] expected kernel_sizes, got None")
    return (
        per_axis(where, kernel, 2, "kernel_sizes"),
        per_axis(where, strides, 2, "strides"),
        _border(where, paddings),
        per_axis(where, dilations, 2, "dilations"),
    )


def unfold(
    x: Tensor,
    kernel_sizes: IntsLike | None = None,
    strides: IntsLike = 1,
    paddings: IntsLike = 0,
    dilations: IntsLike = 1,
    name: str | None = None,
    *,
    kernel_size: IntsLike | None = None,
    dilation: IntsLike | None = None,
) -> Tensor:
    """The windows of (N, C, H, W) as columns (N, C * KH * KW, windows).

    Args:
        x: The images, of any dtype.
        kernel_sizes: One number or (height, width); likewise strides and dilations.
        strides: Distance of the windows.
        paddings: Zeros around: one number, (height, width), (top, left, bottom, right).
        dilations: Distance of the elements of a window.
        kernel_size: Another name of kernel_sizes.
        dilation: Another name of dilations.

    Raises:
        ShapeError: If x is not of rank 4.
        InvalidArgumentError: If no window fits.
    """
    image = channels_first(x, "NCHW", "unfold")
    kernel, steps, border, gaps = _geometry(
        "unfold",
        kernel_size if kernel_sizes is None else kernel_sizes,
        strides, paddings, dilations if dilation is None else dilation,
    )  # fmt: skip
    if any(border):
        image = ops.pad(image, low=[0, 0, *border[:2]], high=[0, 0, *border[2:]])
    for i in range(2):
        image = ops.windows(
            image, axis=2 + i, size=kernel[i], step=steps[i], dilation=gaps[i]
        )
    columns = ops.transpose(image, perm=[0, 1, 4, 5, 2, 3])
    columns = ops.flatten(columns, start_axis=4, stop_axis=5)
    return ops.flatten(columns, start_axis=1, stop_axis=3)


def fold(
    x: Tensor,
    output_sizes: IntsLike,
    kernel_sizes: IntsLike,
    strides: IntsLike = 1,
    paddings: IntsLike = 0,
    dilations: IntsLike = 1,
    name: str | None = None,
) -> Tensor:
    """Columns (N, C * KH * KW, windows) added up where `unfold` takes them from.

    Args:
        x: The columns.
        output_sizes: Height and width of the result (N, C, H, W).
        kernel_sizes: Sizes of the windows; likewise strides, paddings, dilations, as in
            `unfold`.
        strides: Distance of the windows.
        paddings: What is cut off around.
        dilations: Distance of the elements of a window.

    Raises:
        ShapeError: If the columns are not those of such windows.
    """
    kernel, steps, border, gaps = _geometry(
        "fold", kernel_sizes, strides, paddings, dilations
    )
    size = per_axis("fold", output_sizes, 2, "output_sizes")
    whole = [n + border[i] + border[2 + i] for i, n in enumerate(size)]
    count = [
        (n - gaps[i] * (kernel[i] - 1) - 1) // steps[i] + 1 for i, n in enumerate(whole)
    ]
    area = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % area or x.shape[2] not in (-1, count[0] * count[1]):
        must = f"x must have shape (N, C * {area}, {count[0]} * {count[1]})"
        raise ShapeError("fold", must, x.shape)
    channels = x.shape[1] // area
    y = split_axis(split_axis(x, 2, count), 1, [channels, area])
    y = ops.transpose(split_axis(y, 2, kernel), perm=[0, 1, 4, 5, 2, 3])
    one = ops.slice(x, axes=[1, 2], starts=[0, 0], ends=[1, 1], steps=[1, 1])
    for i, shape in [(1, [count[0], whole[1], kernel[0]]), (0, whole)]:
        axes = [1] * (len(shape) - 1)
        like = ops.unsqueeze(one, axis=list(range(1, 1 + len(axes)))) if axes else one
        like = ops.broadcast_to(like, shape=[-1, channels, *shape])
        y = ops.windows_grad(
            y, like, axis=2 + i, size=kernel[i], step=steps[i], dilation=gaps[i]
        )
    if not any(border):
        return y
    ends = [border[i] + n for i, n in enumerate(size)]
    return ops.slice(y, axes=[2, 3], starts=border[:2], ends=ends, steps=[1, 1])
