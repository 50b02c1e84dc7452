"""Tensors that are filled, padded, cut and reordered as in 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.sequences import RowSequences
from proa.static.nn.sequence_arguments import sequences_of, with_sequences

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

__all__ = [
    "crop", "fill_constant_batch_size_like", "gaussian_random_batch_size_like",
    "image_resize_short", "lod_append", "lod_reset", "pad", "pad2d",
    "pad_constant_like", "random_crop", "resize_linear", "resize_trilinear",
    "shuffle_channel", "space_to_depth", "uniform_random_batch_size_like",
]  # fmt: skip


def _sizes(
    input: Tensor, shape: Sequence[int], input_dim_idx: int, output_dim_idx: int
) -> list[Any]:
    """A shape with one size from another tensor."""
    sizes: list[Any] = [*shape]
    sizes[output_dim_idx] = input.shape[input_dim_idx]
    return sizes


def fill_constant_batch_size_like(
    input: Tensor,
    shape: Sequence[int],
    dtype: DTypeLike,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Tensor:
    """A number in a shape that has one size from another tensor."""
    sizes = _sizes(input, shape, input_dim_idx, output_dim_idx)
    return proa.full(sizes, value, dtype)


def uniform_random_batch_size_like(
    input: Tensor,
    shape: Sequence[int],
    dtype: DTypeLike = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Uniform numbers in a shape that has one size from another tensor."""
    sizes = _sizes(input, shape, input_dim_idx, output_dim_idx)
    return proa.uniform(sizes, dtype, min, max)


def gaussian_random_batch_size_like(
    input: Tensor,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """Normal numbers in a shape that has one size from another tensor."""
    sizes = _sizes(input, shape, input_dim_idx, output_dim_idx)
    return proa.cast(proa.scale(proa.randn(sizes), std, mean), dtype)


def pad(
    x: Tensor, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None
) -> Tensor:
    """x with so many numbers before and after each axis, from the first axis on."""
    return F.pad(x, list(paddings), value=pad_value)


def pad2d(
    input: Tensor,
    paddings: Sequence[int] = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Images with (top, bottom, left, right) rows and columns added; mode is constant,
    reflect or edge.
    """
    top, bottom, left, right = paddings
    kind = "replicate" if mode == "edge" else mode
    return F.pad(input, [left, right, top, bottom], kind, pad_value, data_format)


def pad_constant_like(
    x: Tensor, y: Tensor, pad_value: float = 0.0, name: str | None = None
) -> Tensor:
    """y in the shape of x, with numbers after its own."""
    amounts = [n for a, b in zip(x.shape, y.shape, strict=True) for n in (0, a - b)]
    return F.pad(y, amounts, value=pad_value)


def crop(
    x: Tensor,
    shape: Any = None,
    offsets: Any = None,
    name: str | None = None,
) -> Tensor:
    """The part of x of a shape, which may be a tensor's, from offsets on."""
    sizes = list(shape.shape) if isinstance(shape, Tensor) else shape
    return proa.crop(x, sizes, offsets)


def random_crop(x: Tensor, shape: Sequence[int], seed: int | None = None) -> Tensor:
    """Parts of the last axes, of the same random place for all."""
    first = x.ndim - len(shape)
    out = x
    for axis, size in enumerate(shape, first):
        begin = proa.randint(0, int(x.shape[axis]) - size + 1, [1])
        out = proa.gather(out, proa.add(begin, proa.arange(size)), axis)
    return out


def image_resize_short(
    input: Tensor, out_short_len: int, resample: str = "BILINEAR"
) -> Tensor:
    """Images whose shorter side gets a length; the other one is scaled as much."""
    height, width = (int(n) for n in input.shape[2:])
    short = min(height, width)
    size = [int(n * out_short_len / short + 0.5) for n in (height, width)]
    mode: Any = resample.lower()
    corners = mode != "nearest"
    return F.interpolate(input, size, None, mode, corners, 1 if corners else 0)


def resize_linear(
    input: Tensor,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCW",
) -> Tensor:
    """Rows (n, c, w) of another length, by linear interpolation."""
    return F.interpolate(
        input, out_shape, scale, "linear", align_corners, align_mode, data_format
    )


def resize_trilinear(
    input: Tensor,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Tensor:
    """Volumes (n, c, d, h, w) of another size, by linear interpolation."""
    return F.interpolate(
        input, out_shape, scale, "trilinear", align_corners, align_mode, data_format
    )


def shuffle_channel(x: Tensor, group: int, name: str | None = None) -> Tensor:
    """Channels of an image (n, c, h, w) in the order of their places in groups."""
    channels, height, width = (int(n) for n in x.shape[1:])
    split = proa.reshape(x, [-1, group, channels // group, height, width])
    mixed = proa.transpose(split, [0, 2, 1, 3, 4])
    return proa.reshape(mixed, [-1, channels, height, width])


def space_to_depth(x: Tensor, blocksize: int, name: str | None = None) -> Tensor:
    """(n, c, h, w) -> (n, b * b * c, h / b, w / b): a block's places, then channels."""
    channels, height, width = (int(n) for n in x.shape[1:])
    rows, columns = height // blocksize, width // blocksize
    split = proa.reshape(x, [-1, channels, rows, blocksize, columns, blocksize])
    mixed = proa.transpose(split, [0, 3, 5, 1, 2, 4])
    return proa.reshape(mixed, [-1, blocksize * blocksize * channels, rows, columns])


def lod_reset(
    x: Tensor, y: Tensor | None = None, target_lod: Sequence[int] | None = None
) -> Tensor:
    """Rows of x as sequences of other lengths.

    Args:
        x: Rows.
        y: Rows of sequences with these lengths; without sequences, the places at which
            sequences begin, and the last one's end.
        target_lod: These places, if y is None.
    """
    rows = proa.assign(x)
    if y is not None:
        try:
            return with_sequences(rows, sequences_of("lod_reset", y))
        except InvalidArgumentError:
            places = proa.cast(proa.reshape(y, [-1]), "int64")
    elif target_lod is not None:
        places = proa.assign(proa.to_tensor(list(target_lod), dtype="int64"))
    else:
        raise InvalidArgumentError("[lod_reset] expected y or target_lod, got neither")
    lengths = proa.subtract(places[1:], places[:-1])
    return with_sequences(rows, RowSequences([lengths], None, rows))


def lod_append(x: Tensor, level: Any) -> Tensor:
    """Rows of x with a level of lengths more, each sequence's or its rows' own.

    Args:
        x: Rows, or rows of sequences.
        level: Rows of sequences with the new last level's lengths, or these lengths.
    """
    rows = proa.assign(x)
    try:
        outer = sequences_of("lod_append", x).levels
    except InvalidArgumentError:
        outer = []
    if isinstance(level, Tensor):
        last = sequences_of("lod_append", level).lengths
    else:
        last = proa.assign(proa.to_tensor(list(level), dtype="int64"))
    return with_sequences(rows, RowSequences([*outer, last], None, rows))
