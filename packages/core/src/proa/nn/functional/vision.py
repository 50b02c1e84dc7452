"""Reading of images between their pixels, and shifts along time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import channels_first, restored, split_axis
from proa.tensor.arguments import as_int, as_ints, cast_if

if TYPE_CHECKING:
    from proa.tensor.arguments import IntsLike

__all__ = ["affine_grid", "grid_sample", "temporal_shift"]


def iota(x: Tensor, axis: int = 0) -> Tensor:
    """0, 1, 2, .. for the entries of an axis that may be of unknown size; int64."""
    count = x.shape[axis]
    if count >= 0:
        return ops.arange(start=0, step=1, count=count, dtype=as_dtype("int64"))
    others = [a for a in range(x.ndim) if a != axis]
    line = ops.slice(
        x, axes=others, starts=[0] * len(others), ends=[1] * len(others),
        steps=[1] * len(others),
    )  # fmt: skip
    ones = ops.full_like(
        ops.squeeze(line, axis=others), value=1, dtype=as_dtype("int64")
    )
    return ops.sub(ops.cumsum(ones, axis=0), 1)


def row_index(x: Tensor) -> Tensor:
    """(N, C, axes) -> (N * axes, C): the pixels as rows for `corners_of`'s indices."""
    last = ops.transpose(x, perm=[0, *range(2, x.ndim), 1])
    return ops.flatten(last, start_axis=0, stop_axis=-2)


def corners_of(
    at: list[Tensor], size: list[int], image: Tensor, nearest: bool = False
) -> tuple[Tensor, Tensor]:
    """The pixels around points, as indices into `rows_of`, and their weights.

    Args:
        at: The points' coordinates in pixels, one tensor for each axis.
        size: Pixels along each axis.
        image: The number of each point's image, of a shape that broadcasts to theirs.
        nearest: Take the nearest pixel alone.

    Returns:
        (.., K) int64, -1 for pixels outside, and (.., K): K = 2 ** axes, or 1.
    """
    low = [ops.floor(ops.add(a, 0.5) if nearest else a) for a in at]
    part = [ops.sub(a, f) for a, f in zip(at, low, strict=True)]
    indices, weights = [], []
    for corner in itertools.product((0, 1), repeat=0 if nearest else len(at)):
        place, weight, inside = image, None, None
        for i, n in enumerate(size):
            upper = not nearest and corner[i] == 1
            c = ops.add(low[i], 1.0) if upper else low[i]
            ok = ops.logical_and(ops.greater_equal(c, 0.0), ops.less_than(c, float(n)))
            inside = ok if inside is None else ops.logical_and(inside, ok)
            whole = ops.cast(ops.where(ok, c, 0.0), dtype=as_dtype("int64"))
            place = ops.add(ops.mul(place, n), whole)
            if not nearest:
                share = part[i] if upper else ops.sub(1.0, part[i])
                weight = share if weight is None else ops.mul(weight, share)
        assert inside is not None
        indices.append(ops.where(inside, place, -1))
        # By nearest the weight is 1, and its gradient (through floor) 0.
        one = ops.scale(low[0], scale=0.0, bias=1.0) if weight is None else weight
        weights.append(one)
    return ops.stack(*indices, axis=-1), ops.stack(*weights, axis=-1)


def _reflected(at: Tensor, size: int, corners: bool) -> Tensor:
    """Coordinates thrown back at the first and last pixels' middles or outer edges."""
    if corners and size == 1:
        return ops.mul(at, 0.0)
    shift, span = (0.0, size - 1.0) if corners else (0.5, float(size))
    from_edge = ops.abs(ops.add(at, shift))
    round_trip = ops.floor(ops.scale(from_edge, scale=0.5 / span))
    rest = ops.sub(from_edge, ops.scale(round_trip, scale=2 * span))
    back = ops.scale(rest, scale=-1.0, bias=2 * span)
    return ops.sub(ops.minimum(rest, back), shift)


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Tensor:
    """x read at the points of grid, whose last axis is (x, y[, z]) in [-1, 1].

    Args:
        x: (N, C, H, W) or (N, C, D, H, W), floating.
        grid: (N, H', W', 2) or (N, D', H', W', 3).
        mode: bilinear or nearest.
        padding_mode: Values outside: zeros, border (the nearest pixel), reflection.
        align_corners: Whether -1 and 1 are the middles of the first and last pixels or
            their outer edges.

    Returns:
        (N, C, H', W') or (N, C, D', H', W'). A point that is NaN gives 0.

    Raises:
        ShapeError: If the shapes do not fit.
        InvalidArgumentError: If a mode is not as described.

    Source: Jaderberg et al., Spatial transformer networks, 2015.
    """
    axes = x.ndim - 2
    if axes not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != axes:
        must = "x must have rank 4 or 5 and grid the same with 2 or 3 coordinates"
        raise ShapeError("grid_sample", must, [x.shape, grid.shape])
    if mode not in ("bilinear", "nearest"):
        raise InvalidArgumentError(
            f"[grid_sample] mode must be bilinear or nearest, got {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise InvalidArgumentError(
            "[grid_sample] padding_mode must be zeros, border or reflection, "
            f"got {padding_mode!r}"
        )
    if min(x.shape[2:]) < 1:
        raise ShapeError("grid_sample", "sizes of x must be known and > 0", x.shape)
    wide = grid if grid.dtype == "float64" else cast_if(grid, "float32")
    flat = ops.flatten(wide, start_axis=1, stop_axis=-2)  # N, points, coordinates
    size, at = x.shape[2:], []
    for i, n in enumerate(size):
        c = ops.select(flat, axis=2, index=axes - 1 - i)
        half = (n - 1) / 2 if align_corners else n / 2
        c = ops.scale(c, scale=half, bias=(n - 1) / 2)
        if padding_mode == "reflection":
            c = _reflected(c, n, align_corners)
        if padding_mode != "zeros":
            c = ops.clip(c, min=0.0, max=n - 1.0)
        at.append(c)
    image = ops.unsqueeze(iota(x), axis=[1])
    index, weight = corners_of(at, size, image, mode == "nearest")
    y = ops.blend_rows(
        row_index(x),
        ops.flatten(index, start_axis=0, stop_axis=1),
        cast_if(ops.flatten(weight, start_axis=0, stop_axis=1), x.dtype),
    )
    y = split_axis(y, 0, [grid.shape[0], flat.shape[1]])
    for i in range(axes - 1):
        y = split_axis(y, 1 + i, [grid.shape[1 + i], -1])
    return ops.transpose(y, perm=[0, axes + 1, *range(1, axes + 1)])


def affine_grid(
    theta: Tensor,
    out_shape: IntsLike,
    align_corners: bool = True,
    name: str | None = None,
) -> Tensor:
    """The points that `grid_sample` reads to map an image by theta.

    grid[n, h, w] = theta[n] @ (x_w, y_h, 1)

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        out_shape: (N, C, H, W), or (N, C, D, H, W), of the image to make.
        align_corners: As of `grid_sample`.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3), of theta's dtype.

    Raises:
        ShapeError: If theta and out_shape do not fit.
    """
    shape = as_ints("affine_grid", out_shape)
    axes = len(shape) - 2
    if axes not in (2, 3) or theta.ndim != 3 or theta.shape[1:] != [axes, axes + 1]:
        must = "theta must be (N, 2, 3) for 4 numbers in out_shape, (N, 3, 4) for 5"
        raise ShapeError("affine_grid", must, [theta.shape, shape])
    size, columns = shape[2:], []
    for i in reversed(range(axes)):
        n = size[i]
        edge = 1.0 if align_corners else (n - 1) / n
        line = ops.linspace(
            start=-edge if n > 1 else 0.0, stop=edge, count=n, dtype=theta.dtype
        )
        line = ops.reshape(line, shape=[n if a == i else 1 for a in range(axes)])
        columns.append(ops.broadcast_to(line, shape=size))
    columns.append(ops.full(shape=size, value=1, dtype=theta.dtype))
    base = ops.flatten(ops.stack(*columns, axis=-1), start_axis=0, stop_axis=axes - 1)
    grid = ops.matmul(base, ops.swap_last(theta))  # (points, k) @ (N, k, axes)
    for i in range(axes - 1):
        grid = split_axis(grid, 1 + i, [size[i], -1])
    return grid


def temporal_shift(
    x: Tensor,
    seg_num: int,
    shift_ratio: float = 0.25,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """Some channels of each frame taken from the frame before, some from the one after.

    Of C channels the first int(C * ratio) come from the frame before, those up to
    int(C * 2 * ratio) from the one after (zeros beyond the ends), the others stay.

    Args:
        x: (N * seg_num, C, H, W), or channels last by data_format.
        seg_num: Frames of a clip.
        shift_ratio: In (0, 0.5).
        data_format: NCHW or NHWC.

    Raises:
        ShapeError: If seg_num does not divide the frames.
        InvalidArgumentError: If shift_ratio is not as described.

    Source: Lin et al., TSM: Temporal shift module, 2019.
    """
    frames = channels_first(x, data_format, "temporal_shift")
    count = as_int("temporal_shift", seg_num)
    if not 0 < shift_ratio <= 0.5:
        raise InvalidArgumentError(
            f"[temporal_shift] shift_ratio must be in (0, 0.5], got {shift_ratio}"
        )
    if count < 1 or (x.shape[0] >= 0 and x.shape[0] % count):
        raise ShapeError(
            "temporal_shift", f"seg_num {count} must divide the frames", x.shape
        )
    clips = split_axis(frames, 0, [-1, count])
    channels = frames.shape[1]
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    parts = []
    for low, high, by in [(0, first, 1), (first, second, -1), (second, channels, 0)]:
        if high > low:
            part = ops.slice(clips, axes=[2], starts=[low], ends=[high], steps=[1])
            parts.append(ops.pad(part, low=[0, by, 0, 0, 0], high=[0, -by, 0, 0, 0]))
    y = ops.flatten(ops.concat(*parts, axis=2), start_axis=0, stop_axis=1)
    return restored(y, data_format)
