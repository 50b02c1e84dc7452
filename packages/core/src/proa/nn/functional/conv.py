"""Convolutions."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints

__all__ = ["conv1d", "conv2d", "conv2d_transpose"]


def pair(where: str, value: Any, count: int = 2) -> list[int]:
    """One number for each of ``count`` axes."""
    numbers = as_ints(where, value)
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise InvalidArgumentError(
            f"[{where}] there must be one number or {count}, got {value}"
        )
    return numbers


def edges(
    where: str,
    padding: Any,
    size: list[int],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
) -> list[int]:
    """Padding as top, bottom, left, right.

    It may be given as a number, (height, width), (top, bottom, left, right), pairs for
    every axis, "same" or "valid".
    """
    if isinstance(padding, str):
        kind = padding.lower()
        if kind == "valid":
            return [0, 0, 0, 0]
        if kind != "same":
            raise InvalidArgumentError(
                f"[{where}] padding must be numbers, 'same' or 'valid', got {padding!r}"
            )
        result = []
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            result += [total // 2, total - total // 2]
        return result
    if (
        isinstance(padding, (list, tuple))
        and padding
        and isinstance(padding[0], (list, tuple))
    ):
        flat = [n for p in padding for n in as_ints(where, p)]
        spatial = [i for i, p in enumerate(padding) if any(as_ints(where, p))]
        if len(flat) == 8:
            return flat[4:] if not spatial or min(spatial) >= 2 else flat[2:6]
        return flat
    numbers = as_ints(where, padding)
    if len(numbers) == 1:
        return numbers * 4
    if len(numbers) == 2:
        return [numbers[0], numbers[0], numbers[1], numbers[1]]
    if len(numbers) != 4:
        raise InvalidArgumentError(
            f"[{where}] padding must be 1, 2 or 4 numbers, got {padding}"
        )
    return numbers


def channels_first(x: Tensor, data_format: str, where: str) -> Tensor:
    """x as (N, C, H, W) whatever its format; a view."""
    if data_format not in ("NCHW", "NHWC"):
        raise InvalidArgumentError(
            f"[{where}] data_format must be NCHW or NHWC, got {data_format!r}"
        )
    if x.ndim != 4:
        raise ShapeError(where, "x must have rank 4", x.shape)
    return ops.transpose(x, perm=[0, 3, 1, 2]) if data_format == "NHWC" else x


def restored(y: Tensor, data_format: str) -> Tensor:
    """y, which is (N, C, H, W), in the format of the call."""
    return ops.transpose(y, perm=[0, 2, 3, 1]) if data_format == "NHWC" else y


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """Cross-correlation of (N, C, H, W) with (O, C / groups, KH, KW), plus a bias."""
    image = channels_first(x, data_format, "conv2d")
    steps, gaps = pair("conv2d", stride), pair("conv2d", dilation)
    border = edges("conv2d", padding, image.shape[2:], weight.shape[2:], steps, gaps)
    y = ops.conv2d(
        image, weight, bias,
        stride=steps, padding=border, dilation=gaps, groups=groups,
    )  # fmt: skip
    return restored(y, data_format)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: Any = None,
) -> Tensor:
    """Cross-correlation of (N, C, L) with (O, C / groups, K), as a flat image."""
    if x.ndim != 3:
        raise ShapeError("conv1d", "x must have rank 3", x.shape)
    line = ops.swap_last(x) if data_format == "NLC" else x
    image, kernel = ops.unsqueeze(line, axis=[2]), ops.unsqueeze(weight, axis=[2])
    along = padding
    if not isinstance(padding, str):
        amount = as_ints("conv1d", padding)
        along = [0, 0, amount[0], amount[-1]]
    y = conv2d(
        image, kernel, bias,
        [1, *pair("conv1d", stride, 1)], along, [1, *pair("conv1d", dilation, 1)],
        groups,
    )  # fmt: skip
    y = ops.squeeze(y, axis=[2])
    return ops.swap_last(y) if data_format == "NLC" else y


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """The transpose of conv2d: (N, C, H, W) with weight (C, O / groups, KH, KW)."""
    image = channels_first(x, data_format, "conv2d_transpose")
    steps = pair("conv2d_transpose", stride)
    gaps = pair("conv2d_transpose", dilation)
    border = edges(
        "conv2d_transpose", padding, image.shape[2:], weight.shape[2:], steps, gaps
    )
    extra = pair("conv2d_transpose", output_padding)
    size = [
        (image.shape[2 + i] - 1) * steps[i] - border[2 * i] - border[2 * i + 1]
        + gaps[i] * (weight.shape[2 + i] - 1) + 1 + extra[i]
        for i in range(2)
    ]  # fmt: skip
    if output_size is not None:
        size = pair("conv2d_transpose", output_size)
    shape = [image.shape[0], weight.shape[1] * groups, *size]
    like = ops.full(shape=shape, value=0, dtype=image.dtype)
    y = ops.conv2d_grad_input(
        image, weight, like,
        stride=steps, padding=border, dilation=gaps, groups=groups,
    )  # fmt: skip
    if bias is not None:
        y = ops.add(y, ops.reshape(bias, shape=[1, -1, 1, 1]))
    return restored(y, data_format)
