"""Resizing of images. Every mode but area goes axis by axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from proa.nn.functional.symbolic_resizing import resized
from proa.tensor.arguments import as_ints
from proa.tensor.symbolic_dims import SymbolicDim, has_symbolic_dims, same_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proa.tensor.arguments import IntsLike

__all__ = ["interpolate", "upsample"]

#: Mode -> the row's mode, and the ranks it takes.
_MODES: dict[str, tuple[str, tuple[int, ...]]] = {
    "nearest": ("nearest", (3, 4, 5)),
    "linear": ("linear", (3,)),
    "bilinear": ("linear", (4,)),
    "trilinear": ("linear", (5,)),
    "bicubic": ("cubic", (4,)),
    "area": ("area", (3, 4, 5)),
}
#: What data_format may be at each rank; NCHW, the default, is channels first at any.
_FORMATS = {
    3: ("NCW", "NWC", "NCL", "NLC", "NCHW"),
    4: ("NCHW", "NHWC"),
    5: ("NCDHW", "NDHWC", "NCHW"),
}


def _factors(scale_factor: Any, axes: int) -> list[float]:
    """One factor for each axis."""
    if isinstance(scale_factor, Tensor):
        scale_factor = scale_factor.numpy()
    values = np.asarray(
        [s.item() if isinstance(s, Tensor) else s for s in scale_factor]
        if isinstance(scale_factor, (list, tuple))
        else scale_factor,
        np.float64,
    ).reshape(-1)
    factors = [float(v) for v in values] * (axes if len(values) == 1 else 1)
    if len(factors) != axes or not all(0 < f < float("inf") for f in factors):
        raise InvalidArgumentError(
            f"[interpolate] scale_factor must be positive, one number or {axes}, "
            f"got {scale_factor}"
        )
    return factors


def _sizes(size: IntsLike, axes: int) -> list[Any]:
    if has_symbolic_dims(size) and len(size) == axes:
        return [n if isinstance(n, SymbolicDim) else _sizes(n, 1)[0] for n in size]
    sizes = as_ints("interpolate", size)
    sizes = sizes * (axes if len(sizes) == 1 else 1)
    if len(sizes) != axes or min(sizes) < 1:
        raise InvalidArgumentError(
            f"[interpolate] size must be positive, one number or {axes}, got {size}"
        )
    return sizes


def _check(
    x: Tensor,
    size: IntsLike | None,
    scale: Any,
    mode: str,
    corners: bool,
    align: int,
    layout: str,
) -> None:
    if mode not in _MODES:
        raise InvalidArgumentError(
            f"[interpolate] mode must be one of {', '.join(_MODES)}, got {mode!r}"
        )
    ranks = _MODES[mode][1]
    if x.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise ShapeError("interpolate", f"{mode} takes x of rank {wanted}", x.shape)
    if layout not in _FORMATS[x.ndim]:
        raise InvalidArgumentError(
            f"[interpolate] data_format must be one of {_FORMATS[x.ndim]}, "
            f"got {layout!r}"
        )
    if (size is None) == (scale is None):
        raise InvalidArgumentError(
            "[interpolate] expected either size or scale_factor, got "
            f"{size} and {scale}"
        )
    if corners and mode in ("nearest", "area"):
        raise InvalidArgumentError(
            "[interpolate] align_corners must be False in modes nearest and area, "
            f"got {corners}"
        )
    if align not in (0, 1):
        raise InvalidArgumentError(
            f"[interpolate] align_mode must be 0 or 1, got {align}"
        )
    if mode != "nearest" and not x.dtype.is_floating:
        raise InvalidArgumentError(
            f"[interpolate] {mode} takes floating x, got {x.dtype}"
        )


def interpolate(
    x: Tensor,
    size: IntsLike | None = None,
    scale_factor: float | Sequence[float] | Tensor | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Lines, images or volumes resized to ``size`` or by ``scale_factor``.

    Element i of an axis of n elements, resized to m, is at r * (i + 0.5) - 0.5 with
    r = n / m, or 1 / scale_factor where that is given. With align_corners it is at
    i * (n - 1) / (m - 1), with align_mode 1 (linear modes) and by nearest at r * i. An
    element with weight 0 is not read: a NaN does not spread to where it has no part.

    Args:
        x: (N, C, axes) or (N, axes, C) by data_format. Nearest takes every dtype, the
            other modes floating ones.
        size: The new size, one number for each axis.
        scale_factor: Instead of it the factor, one number or one for each axis; the new
            size is rounded down.
        mode: nearest, linear (of lines), bilinear, bicubic (of images), trilinear (of
            volumes), area (means of windows that cover x).
        align_corners: Whether the first and the last elements stay where they are.
        align_mode: 0: elements have their middles at i + 0.5; 1: at i.
        data_format: NCL, NCHW, NCDHW; NLC, NHWC, NDHWC.

    Raises:
        ShapeError: If mode does not take this rank.
        InvalidArgumentError: If another argument is not as described.
    """
    mode = mode.lower()
    _check(x, size, scale_factor, mode, align_corners, align_mode, data_format)
    kind: Any = _MODES[mode][0]
    axes = x.ndim - 2
    first = 2 if data_format.startswith("NC") else 1
    sizes = _sizes(size, axes) if size is not None else [0] * axes
    factors = _factors(scale_factor, axes) if size is None else [0.0] * axes
    if kind == "area":
        if size is None:
            known = zip(x.shape[first : first + axes], factors, strict=True)
            sizes = [int(n * f) for n, f in known]
        return _area(x, sizes, first)
    for i, (new, factor) in enumerate(zip(sizes, factors, strict=True)):
        if factor == 1 or (size is not None and same_size(new, x.shape[first + i])):
            continue  # every element keeps its place
        if isinstance(new, SymbolicDim):
            half = align_mode == 0
            x = resized(x, first + i, new, kind, align_corners, half)
            continue
        x = ops.resize_axis(
            x, axis=first + i, size=new, scale=factor, mode=kind,
            corners=align_corners, half=align_mode == 0,
        )  # fmt: skip
    return x


def _area(x: Tensor, sizes: list[int], first: int) -> Tensor:
    if x.ndim == 3:
        if first == 2:
            return adaptive_avg_pool1d(x, sizes)
        return ops.swap_last(adaptive_avg_pool1d(ops.swap_last(x), sizes))
    pool = adaptive_avg_pool2d if x.ndim == 4 else adaptive_avg_pool3d
    formats = {4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}
    return pool(x, sizes, formats[x.ndim][first - 1])


upsample = interpolate
