"""Resizing of images and moving of channels into space."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints

__all__ = ["interpolate", "pixel_shuffle", "upsample"]


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """Images resized to ``size`` or by ``scale_factor``; only by mode nearest."""
    if mode.lower() != "nearest" or x.ndim not in (3, 4):
        raise InvalidArgumentError(
            f"[interpolate] mode must be nearest on rank 3 or 4, got {mode!r} "
            f"on {x.shape}"
        )
    if (size is None) == (scale_factor is None):
        raise InvalidArgumentError(
            "[interpolate] one of size and scale_factor must be given, got "
            f"{size} and {scale_factor}"
        )
    first = 2 if data_format.startswith("NC") else 1
    spatial = range(first, first + x.ndim - 2)
    if size is not None:
        target = as_ints("interpolate", size)
    else:
        factors = scale_factor
        if not isinstance(factors, (list, tuple)):
            factors = [factors] * len(spatial)
        target = [
            int(x.shape[a] * float(f)) for a, f in zip(spatial, factors, strict=True)
        ]
    target = target * len(spatial) if len(target) == 1 else target
    for axis, new in zip(spatial, target, strict=True):
        old = x.shape[axis]
        if new % old == 0 and not align_corners:
            x = _repeated(x, axis, new // old)
            continue
        top = max(new - 1, 1) if align_corners else new
        span = old - 1 if align_corners else old
        shift = 0.5 if align_corners else 0.0
        places = [min(int(i * span / top + shift), old - 1) for i in range(new)]
        index = ops.stack(
            *[ops.full(shape=[], value=i, dtype=as_dtype("int64")) for i in places],
            axis=0,
        )
        x = ops.gather(x, index, axis=axis)
    return x


def _repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Every entry along axis ``times`` times."""
    if times == 1:
        return x
    wide = ops.unsqueeze(x, axis=[axis + 1])
    shape = [-1] * wide.ndim
    shape[axis + 1] = times
    return ops.flatten(
        ops.broadcast_to(wide, shape=shape), start_axis=axis, stop_axis=axis + 1
    )


upsample = interpolate


def pixel_shuffle(
    x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: Any = None
) -> Tensor:
    """(N, C r r, H, W) -> (N, C, H r, W r)."""
    r = upscale_factor
    if data_format == "NHWC":
        y = pixel_shuffle(ops.transpose(x, perm=[0, 3, 1, 2]), r)
        return ops.transpose(y, perm=[0, 2, 3, 1])
    n, c, h, w = x.shape
    if c % (r * r):
        raise ShapeError("pixel_shuffle", f"channels must divide by {r * r}", x.shape)
    y = ops.reshape(x, shape=[n, c // (r * r), r, r, h, w])
    y = ops.transpose(y, perm=[0, 1, 4, 2, 5, 3])
    return ops.reshape(y, shape=[n, c // (r * r), h * r, w * r])
