"""Functions that change a tensor's shape or put its elements elsewhere."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor.arguments import (
    AxisLike,
    IntsLike,
    as_count,
    as_int,
    as_ints,
    normal_axis,
    present_axis,
    renamed,
)
from proa.tensor.creation import as_tensor
from proa.tensor.lod import LoDTensor, joined_lengths, with_lengths
from proa.tensor.symbolic_dims import SymbolicDim, has_symbolic_dims, sized

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

__all__ = [
    "broadcast_shape", "broadcast_tensors", "broadcast_to", "chunk", "concat", "crop",
    "diagonal", "expand", "expand_as", "flatten", "flip", "moveaxis",
    "repeat_interleave", "reshape", "reverse", "roll", "rot90", "slice", "split",
    "squeeze", "stack", "strided_slice", "swapaxes", "tile", "transpose", "unbind",
    "unsqueeze", "unstack", "view",
]  # fmt: skip

#: As the end of a slice: to the very end, and to the very start with a negative step.
TO_END = 2**63 - 1
TO_START = -(2**63)
#: A view takes at least as many bytes, whatever it is a view of.
_VIEW_BYTES = 256


def reshape(x: Tensor, shape: IntsLike, name: str | None = None) -> Tensor:
    """The same elements in another shape. One -1 is inferred; 0 keeps a size."""
    if has_symbolic_dims(shape):
        return _open_reshape(x, shape)
    return ops.reshape(x, shape=as_ints("reshape", shape))


def _open_reshape(x: Tensor, shape: Any) -> Tensor:
    """`reshape` to a shape with symbolic dimensions."""
    old = x.shape
    shape = [
        old[i] if not isinstance(n, Tensor) and n == 0 and i < len(old) else n
        for i, n in enumerate(shape)
    ]
    _infer_known(x, shape)
    # One that is open follows from the others.
    unknown = [n._is_symbolic if isinstance(n, Tensor) else n < 0 for n in shape]
    if sum(unknown) == 1:
        known = zip(shape, unknown, strict=True)
        return ops.reshape(x, shape=[-1 if u else int(n) for n, u in known])
    return ops.reshape_like(x, sized(shape, first=x))


def _infer_known(x: Tensor, shape: list[Any]) -> None:
    """Where all that is open in x stays, the size that is left out (-1) is known."""
    known = [n for n in shape if type(n) is int]
    stays = [n for n in shape if isinstance(n, SymbolicDim) and n.is_axis_of(x)]
    left = [axis for axis, n in enumerate(shape) if type(n) is int and n < 0]
    if len(known) + len(stays) < len(shape) or len(left) != 1:
        return
    opens = [axis for axis, n in enumerate(x.shape) if isinstance(n, SymbolicDim)]
    held = math.prod(n for n in x.shape if not isinstance(n, SymbolicDim))
    rest = -math.prod(known)
    if sorted(n.axis for n in stays) == opens and rest > 0 and held % rest == 0:
        shape[left[0]] = held // rest


def view(
    x: Tensor, shape_or_dtype: IntsLike | DTypeLike, name: str | None = None
) -> Tensor:
    """x under another shape, on the same memory."""
    if isinstance(shape_or_dtype, (list, tuple, Tensor)):
        return reshape(x, shape_or_dtype)
    raise InvalidArgumentError(
        f"[view] expected a shape or a dtype, got {shape_or_dtype!r}"
    )


def transpose(x: Tensor, perm: Sequence[int], name: str | None = None) -> Tensor:
    """Axis i of the result is axis perm[i] of x."""
    return ops.transpose(x, perm=as_ints("transpose", perm))


def moveaxis(
    x: Tensor,
    source: int | Sequence[int],
    destination: int | Sequence[int],
    name: str | None = None,
) -> Tensor:
    """Axes moved to new places; the others keep their order."""
    rank = x.ndim
    old = [normal_axis("moveaxis", a, rank) for a in as_ints("moveaxis", source)]
    new = [normal_axis("moveaxis", a, rank) for a in as_ints("moveaxis", destination)]
    if len(old) != len(new) or len(set(old)) < len(old) or len(set(new)) < len(new):
        raise InvalidArgumentError(
            "[moveaxis] source and destination must be equally many distinct axes, "
            f"got {source} and {destination}"
        )
    others = iter([a for a in range(rank) if a not in old])
    target = dict(zip(new, old, strict=True))
    perm = [target[i] if i in target else next(others) for i in range(rank)]
    return ops.transpose(x, perm=perm)


def swapaxes(x: Tensor, axis0: int, axis1: int, name: str | None = None) -> Tensor:
    """Two axes exchanged."""
    first = present_axis("swapaxes", axis0, x.ndim)
    second = present_axis("swapaxes", axis1, x.ndim)
    perm = list(range(x.ndim))
    perm[first], perm[second] = second, first
    return ops.transpose(x, perm=perm)


def concat(
    x: Sequence[Tensor], axis: int | Tensor = 0, name: str | None = None
) -> Tensor:
    """Tensors joined along an axis; `LoDTensor`s keep their lengths on axis 0.

    0-d tensors count as having one axis, of one number: Paddle 2.1 has such in places
    where they are 0-d here.
    """
    given: object = x
    if isinstance(given, Tensor):
        raise InvalidArgumentError("[concat] expected a list of tensors, got a Tensor")
    if not x:
        raise InvalidArgumentError("[concat] expected at least one tensor, got none")
    along = as_int("concat", axis)
    if [None for part in x if getattr(part, "ndim", 1) == 0]:
        x = [
            ops.reshape(part, shape=[1]) if getattr(part, "ndim", 1) == 0 else part
            for part in x
        ]
    joined = ops.concat(*x, axis=along)
    if along in (0, -joined.ndim) and isinstance(x[0], LoDTensor):
        lengths = joined_lengths(x)
        return joined if lengths is None else with_lengths(joined, lengths)
    return joined


def stack(
    x: Sequence[Tensor] | Tensor, axis: int = 0, name: str | None = None
) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    if not isinstance(x, Tensor) and not x:
        raise InvalidArgumentError("[stack] expected at least one tensor, got none")
    return ops.stack(*x, axis=as_int("stack", axis))


#: At least as many bytes are taken by a Tensor that is a view.
_VIEW_BYTES = 64


def _split_at(x: Tensor, sizes: Sequence[int], axis: int) -> list[Tensor]:
    result, start = [], 0
    for size in sizes:
        result.append(
            ops.slice(x, axes=[axis], starts=[start], ends=[start + size], steps=[1])
        )
        start += size
    return result


def split(
    x: Tensor,
    num_or_sections: int | Sequence[int],
    axis: int | Tensor = 0,
    name: str | None = None,
) -> list[Tensor]:
    """Views of x cut along an axis into equal parts or parts of given sizes."""
    along = present_axis("split", as_int("split", axis), x.ndim)
    total = x.shape[along]
    if has_symbolic_dims([total]):
        return _open_split(x, num_or_sections, along, total)
    if isinstance(num_or_sections, int):
        if num_or_sections < 1 or total % num_or_sections:
            raise InvalidArgumentError(
                f"[split] expected a number of parts that divides the size {total}, "
                f"got {num_or_sections}"
            )
        count = as_count("split", "num_or_sections", num_or_sections, _VIEW_BYTES)
        sizes = [total // count] * count
        return _split_at(x, sizes, along)
    sizes = as_ints("split", num_or_sections)
    unspecified = [i for i, n in enumerate(sizes) if n == -1]
    if len(unspecified) == 1:
        sizes[unspecified[0]] = total - sum(sizes) - 1
    if sum(sizes) != total or min(sizes, default=0) < 0:
        raise InvalidArgumentError(
            f"[split] sections must add up to {total}, got {list(num_or_sections)}"
        )
    return _split_at(x, sizes, along)


def _open_split(x: Tensor, parts: Any, axis: int, total: Any) -> list[Tensor]:
    """`split` of a symbolic axis."""
    if isinstance(parts, int):
        sizes = [total // parts] * parts
    else:
        sizes = list(parts)
        left = [i for i, n in enumerate(sizes) if type(n) is int and n == -1]
        if len(left) == 1:
            del sizes[left[0]]
            sizes.insert(left[0], total - sum(sizes))
    result, start = [], 0
    for size in sizes:
        part: Any = [builtins.slice(None)] * axis + [
            builtins.slice(start, start + size)
        ]
        result.append(x[tuple(part)])
        start = start + size
    return result


def chunk(
    x: Tensor, chunks: int, axis: int | Tensor = 0, name: str | None = None
) -> list[Tensor]:
    """`split` into equal parts."""
    return split(x, chunks, axis)


def unbind(input: Tensor, axis: int = 0) -> list[Tensor]:
    """Views of the entries along an axis, which is removed."""
    along = present_axis("unbind", axis, input.ndim)
    count = as_count("unbind", "a list of views", input.shape[along], _VIEW_BYTES)
    return [ops.select(input, axis=along, index=i) for i in range(count)]


def unstack(x: Tensor, axis: int = 0, num: int | None = None) -> list[Tensor]:
    """`unbind`, with a check of the number of entries."""
    parts = unbind(x, axis)
    if num is not None and num != len(parts):
        raise InvalidArgumentError(f"[unstack] num must be {len(parts)}, got {num}")
    return parts


def squeeze(x: Tensor, axis: AxisLike = None, name: str | None = None) -> Tensor:
    """Axes of size 1 removed: all, or those named that have size 1."""
    return ops.squeeze(x, axis=[] if axis is None else as_ints("squeeze", axis))


def unsqueeze(x: Tensor, axis: IntsLike, name: str | None = None) -> Tensor:
    """Axes of size 1 put in one after another at the given places."""
    axes = as_ints("unsqueeze", axis)
    if len(axes) <= 1:
        return ops.unsqueeze(x, axis=axes)
    for a in axes:
        x = ops.unsqueeze(x, axis=[a])
    return x


def flatten(
    x: Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None
) -> Tensor:
    """The axes start to stop (included) merged into one."""
    return ops.flatten(x, start_axis=start_axis, stop_axis=stop_axis)


def expand(x: Tensor, shape: IntsLike, name: str | None = None) -> Tensor:
    """x repeated without copying to ``shape``; -1 keeps a dimension."""
    if has_symbolic_dims(shape):
        lead = len(shape) - x.ndim
        sizes = [
            x.shape[i - lead] if type(n) is int and n == -1 and i >= lead else n
            for i, n in enumerate(shape)
        ]
        return ops.broadcast_like(x, sized(sizes, first=x))
    return ops.broadcast_to(x, shape=as_ints("expand", shape))


broadcast_to = expand


def expand_as(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x repeated without copying to the shape of y."""
    return ops.broadcast_like(x, y)


def broadcast_shape(x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """The shape that two shapes broadcast to."""
    rank = max(len(x_shape), len(y_shape))
    a = [1] * (rank - len(x_shape)) + list(x_shape)
    b = [1] * (rank - len(y_shape)) + list(y_shape)
    if any(p != q and 1 not in (p, q) for p, q in zip(a, b, strict=True)):
        raise ShapeError(
            "broadcast_shape", "dimensions must be equal or 1", (x_shape, y_shape)
        )
    return [q if p == 1 else p for p, q in zip(a, b, strict=True)]


@renamed(input="inputs")
def broadcast_tensors(input: Sequence[Tensor], name: str | None = None) -> list[Tensor]:
    """All tensors broadcast to their common shape."""
    shape: list[int] = []
    for x in input:
        shape = broadcast_shape(shape, x.shape)
    return [ops.broadcast_to(x, shape=shape) for x in input]


def tile(x: Tensor, repeat_times: IntsLike, name: str | None = None) -> Tensor:
    """x repeated along each axis, aligned at the last."""
    if has_symbolic_dims(repeat_times):
        return _open_tile(x, list(cast(Any, repeat_times)))
    return ops.tile(x, repeats=as_ints("tile", repeat_times))


def _open_tile(x: Tensor, repeats: list[Any]) -> Tensor:
    """`tile` by symbolic numbers: an axis before each, broadcast."""
    lead = len(repeats) - x.ndim
    repeats = [1] * -lead + repeats
    old = [1] * lead + x.shape
    pairs = [size for pair in zip(repeats, old, strict=True) for size in pair]
    split = [size for one in old for size in (1, one)]
    size = [n * r for n, r in zip(old, repeats, strict=True)]
    if all(1 in (n, r) for n, r in zip(old, repeats, strict=True)):
        return expand(x, size)
    return reshape(expand(reshape(x, split), pairs), size)


def repeat_interleave(
    x: Tensor, repeats: int | Tensor, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Each entry along an axis repeated in place."""
    if axis is None:
        x, axis = ops.reshape(x, shape=[-1]), 0
    along = present_axis("repeat_interleave", axis, x.ndim)
    if isinstance(repeats, Tensor):
        index = np.repeat(np.arange(x.shape[along]), _repeats(repeats, x.shape[along]))
        return ops.gather(x, as_tensor(index), axis=along)
    wide = ops.unsqueeze(x, axis=[along + 1])
    size = [-1] * wide.ndim
    size[along + 1] = repeats
    return ops.flatten(
        ops.broadcast_to(wide, shape=size), start_axis=along, stop_axis=along + 1
    )


def flip(x: Tensor, axis: IntsLike, name: str | None = None) -> Tensor:
    """The order along the axes reversed."""
    axes = [normal_axis("flip", a, x.ndim) for a in as_ints("flip", axis)]
    n = len(axes)
    flipped = ops.slice(
        x, axes=axes, starts=[TO_END] * n, ends=[TO_START] * n, steps=[-1] * n
    )
    return ops.assign(flipped)


reverse = flip


def roll(
    x: Tensor, shifts: IntsLike, axis: AxisLike = None, name: str | None = None
) -> Tensor:
    """Elements moved cyclically along axes, or over all elements if axis is None."""
    moves = as_ints("roll", shifts)
    if axis is None:
        flat = ops.reshape(x, shape=[-1])
        return ops.reshape_like(_rolled(flat, sum(moves), 0), x)
    axes = as_ints("roll", axis)
    if len(axes) != len(moves):
        raise InvalidArgumentError(
            f"[roll] expected one shift for each axis, got {moves} and {axes}"
        )
    for shift, a in zip(moves, axes, strict=True):
        x = _rolled(x, shift, normal_axis("roll", a, x.ndim))
    return x


def _repeats(repeats: Tensor, size: int) -> NDArray[Any]:
    """How often each entry of an axis is repeated."""
    if not repeats.dtype.is_integer:
        raise InvalidTypeError(
            f"[repeat_interleave] expected repeats of integers, got {repeats.dtype}"
        )
    counts = repeats.numpy()
    if counts.ndim > 1 or counts.size not in (1, size) or (counts < 0).any():
        raise ShapeError(
            "[repeat_interleave] expected repeats to be one number of at least 0 or "
            f"one for each of {size} entries, got shape {repeats.shape}"
        )
    return counts


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    axis = present_axis("roll", axis, x.ndim)
    size = x.shape[axis]
    if isinstance(size, SymbolicDim):
        # element i is element (i - shift) mod size of x
        count = ops.cumsum(ops.full_like(sized([size]), value=1, dtype="int32"), axis=0)
        index = ops.sub(count, as_tensor(shift + 1, count))
        index = ops.mod(index, size.number())
        return ops.gather(x, index, axis=axis)
    if size == 0 or shift % size == 0:
        return ops.assign(x)
    cut = size - shift % size
    head, tail = _split_at(x, [cut, size - cut], axis)
    return ops.concat(tail, head, axis=axis)


def rot90(
    x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None
) -> Tensor:
    """Rotate the plane of two axes k times by 90 degrees, first towards second."""
    if len(axes) != 2:
        raise InvalidArgumentError(f"[rot90] expected 2 axes, got {axes}")
    first, second = (present_axis("rot90", a, x.ndim) for a in axes)
    if first == second:
        raise InvalidArgumentError(f"[rot90] expected 2 different axes, got {axes}")
    if k % 4 == 0:
        return ops.assign(x)
    if k % 4 == 2:
        return flip(flip(x, first), second)
    if k % 4 == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


def slice(input: Tensor, axes: IntsLike, starts: IntsLike, ends: IntsLike) -> Tensor:
    """input[start:end] along each of the axes; a view."""
    along = as_ints("slice", axes)
    return ops.slice(
        input,
        axes=along,
        starts=as_ints("slice", starts),
        ends=as_ints("slice", ends),
        steps=[1] * len(along),
    )


def strided_slice(
    x: Tensor,
    axes: IntsLike,
    starts: IntsLike,
    ends: IntsLike,
    strides: IntsLike,
    name: str | None = None,
) -> Tensor:
    """x[start:end:stride] along each of the axes; a view."""
    return ops.slice(
        x,
        axes=as_ints("strided_slice", axes),
        starts=as_ints("strided_slice", starts),
        ends=as_ints("strided_slice", ends),
        steps=as_ints("strided_slice", strides),
    )


def crop(
    x: Tensor,
    shape: IntsLike | None = None,
    offsets: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The block of ``shape`` that starts at ``offsets``; -1 takes all that is left."""
    size = list(x.shape) if shape is None else as_ints("crop", shape)
    start = [0] * x.ndim if offsets is None else as_ints("crop", offsets)
    for name, given in (("shape", size), ("offsets", start)):
        if len(given) != x.ndim:
            raise InvalidArgumentError(
                f"[crop] expected {name} to hold a number for each of {x.ndim} axes, "
                f"got {given}"
            )
    ends = [TO_END if n == -1 else s + n for s, n in zip(start, size, strict=True)]
    return ops.slice(
        x, axes=list(range(x.ndim)), starts=start, ends=ends, steps=[1] * x.ndim
    )


def diagonal(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Tensor:
    """A diagonal of the planes of two axes, as a last axis; a view."""
    return ops.diagonal(x, offset=offset, axis1=axis1, axis2=axis2)
