"""Pooling."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.nn.functional.conv import channels_first, edges, pair, restored
from proa.tensor.arguments import as_ints

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d",
    "max_pool1d", "max_pool2d",
]  # fmt: skip


def _window(
    where: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any
) -> dict[str, Any]:
    kernel = pair(where, kernel_size)
    steps = kernel if stride is None else pair(where, stride)
    border = edges(where, padding, x.shape[2:], kernel, steps, [1, 1])
    return {"kernel": kernel, "stride": steps, "padding": border}


def max_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: Any = None,
) -> Any:
    """Greatest element of each window; with return_mask also its h * W + w."""
    image = channels_first(x, data_format, "max_pool2d")
    window = _window("max_pool2d", image, kernel_size, stride, padding)
    y = restored(ops.max_pool2d(image, **window, ceil_mode=ceil_mode), data_format)
    if not return_mask:
        return y
    index = ops.max_pool2d_index(image, **window, ceil_mode=ceil_mode)
    return y, restored(index, data_format)


def avg_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """Mean of each window, padding left out if exclusive."""
    image = channels_first(x, data_format, "avg_pool2d")
    window = _window("avg_pool2d", image, kernel_size, stride, padding)
    if divisor_override is None:
        y = ops.avg_pool2d(image, **window, ceil_mode=ceil_mode, exclusive=exclusive)
    else:
        y = ops.avg_pool2d(image, **window, ceil_mode=ceil_mode, exclusive=False)
        area = window["kernel"][0] * window["kernel"][1]
        y = ops.scale(y, scale=area / divisor_override)
    return restored(y, data_format)


def adaptive_avg_pool2d(
    x: Tensor, output_size: Any, data_format: str = "NCHW", name: Any = None
) -> Tensor:
    """Mean over output_size windows that cover the image; None keeps a size."""
    image = channels_first(x, data_format, "adaptive_avg_pool2d")
    wanted = (
        output_size if isinstance(output_size, (list, tuple)) else [output_size] * 2
    )
    size = [
        image.shape[2 + i] if n is None else as_ints("adaptive_avg_pool2d", n)[0]
        for i, n in enumerate(wanted)
    ]
    return restored(ops.adaptive_avg_pool2d(image, size=size), data_format)


def _line(x: Tensor, where: str) -> Tensor:
    if x.ndim != 3:
        raise ShapeError(where, "x must have rank 3", x.shape)
    return ops.unsqueeze(x, axis=[2])


def _along(where: str, value: Any, none: int) -> list[int]:
    return [none, *pair(where, value, 1)]


def max_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: Any = None,
) -> Any:
    """Greatest element of each window of (N, C, L)."""
    kernel = _along("max_pool1d", kernel_size, 1)
    steps = kernel if stride is None else _along("max_pool1d", stride, 1)
    border = padding if isinstance(padding, str) else _along("max_pool1d", padding, 0)
    found = max_pool2d(
        _line(x, "max_pool1d"), kernel, steps, border, return_mask, ceil_mode
    )
    if return_mask:
        return tuple(ops.squeeze(t, axis=[2]) for t in found)
    return ops.squeeze(found, axis=[2])


def avg_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: Any = None,
) -> Tensor:
    """Mean of each window of (N, C, L)."""
    kernel = _along("avg_pool1d", kernel_size, 1)
    steps = kernel if stride is None else _along("avg_pool1d", stride, 1)
    border = padding if isinstance(padding, str) else _along("avg_pool1d", padding, 0)
    y = avg_pool2d(_line(x, "avg_pool1d"), kernel, steps, border, ceil_mode, exclusive)
    return ops.squeeze(y, axis=[2])


def adaptive_avg_pool1d(x: Tensor, output_size: int, name: Any = None) -> Tensor:
    """Mean over output_size windows that cover (N, C, L)."""
    y = adaptive_avg_pool2d(_line(x, "adaptive_avg_pool1d"), [1, output_size])
    return ops.squeeze(y, axis=[2])
