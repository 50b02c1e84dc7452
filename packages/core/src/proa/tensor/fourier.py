"""Discrete Fourier transforms: `proa.fft` has their conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import (
    as_count,
    as_int,
    as_ints,
    cast_if,
    present_axis,
)
from proa.tensor.creation import to_tensor
from proa.tensor.decompositions import as_complex_numbers
from proa.tensor.manipulation import roll

if TYPE_CHECKING:
    from proa.tensor.arguments import AxisLike

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft",
    "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Scale: TypeAlias = Literal["none", "ortho", "mean"]
#: (axis, size or None) of each transform, in order.
_Lengths: TypeAlias = list[tuple[int, int | None]]
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
#: Norm -> the row's norm of a forward and of an inverse transform.
_SCALES: dict[str, tuple[Scale, Scale]] = {
    "backward": ("none", "mean"),
    "ortho": ("ortho", "ortho"),
    "forward": ("mean", "none"),
}


def _scale(where: str, norm: str, inverse: bool) -> Scale:
    if norm not in _SCALES:
        raise InvalidArgumentError(
            f"[{where}] norm must be 'forward', 'backward' or 'ortho', got {norm!r}"
        )
    return _SCALES[norm][inverse]


def _floating(x: Tensor) -> Tensor:
    return x if x.dtype.is_floating or x.dtype.is_complex else cast_if(x, "default")


def _real(where: str, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        raise InvalidArgumentError(f"[{where}] x must be real, got {x.dtype}")
    return _floating(x)


def _sized(where: str, x: Tensor, n: int | None, axis: int) -> Tensor:
    """x with n elements along the axis: cut, or filled with zeros."""
    size = x.shape[axis]
    wanted = size if n is None else as_int(where, n)
    if wanted < 1:
        raise InvalidArgumentError(
            f"[{where}] n must be at least 1, got {wanted} (axis {axis} of {x.shape})"
        )
    if wanted < size:
        return ops.slice(x, axes=[axis], starts=[0], ends=[wanted], steps=[1])
    if wanted == size:
        return x
    high = [0] * x.ndim
    high[axis] = wanted - size
    return ops.pad(x, low=[0] * x.ndim, high=high)


def _lengths(
    where: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> _Lengths:
    sizes = None if s is None else as_ints(where, s)
    if axes is None:
        count = x.ndim if sizes is None else len(sizes)
        along = list(range(x.ndim - count, x.ndim))
    else:
        along = as_ints(where, axes)
    if sizes is not None and len(sizes) != len(along):
        raise InvalidArgumentError(
            f"[{where}] s and axes must have the same length, got {sizes} and {along}"
        )
    places = [present_axis(where, a, x.ndim) for a in along]
    if len(set(places)) < len(places) or not places:
        raise InvalidArgumentError(
            f"[{where}] expected one or more distinct axes, got {along}"
        )
    lengths: Sequence[int | None] = sizes or [None] * len(places)
    return list(zip(places, lengths, strict=True))


def _complex_to_complex(
    where: str, x: Tensor, lengths: _Lengths, norm: str, inverse: bool
) -> Tensor:
    for axis, n in lengths:
        along = present_axis(where, axis, x.ndim)
        scale = _scale(where, norm, inverse)
        x = _sized(where, as_complex_numbers(_floating(x)), n, along)
        x = ops.fft(x, axis=along, inverse=inverse, norm=scale)
    return x


def _real_to_complex(where: str, x: Tensor, lengths: _Lengths, norm: str) -> Tensor:
    """The first half along the last axis, which settles the other."""
    *others, (last, n) = lengths
    along = present_axis(where, last, x.ndim)
    y = _complex_to_complex(where, _real(where, x), [(along, n)], norm, False)
    half = y.shape[along] // 2 + 1
    y = ops.slice(y, axes=[along], starts=[0], ends=[half], steps=[1])
    return _complex_to_complex(where, y, others, norm, False)


def _complex_to_real(where: str, x: Tensor, lengths: _Lengths, norm: str) -> Tensor:
    """The real tensor whose transform begins with x along the last axis."""
    *others, (last, n) = lengths
    x = _complex_to_complex(where, x, others, norm, True)
    along = present_axis(where, last, x.ndim)
    size = 2 * (x.shape[along] - 1) if n is None else as_int(where, n)
    if size < 1:
        raise InvalidArgumentError(f"[{where}] n must be at least 1, got {size}")
    half = _sized(where, as_complex_numbers(_floating(x)), size // 2 + 1, along)
    # Elements 1 .. (size - 1) // 2 once more, conjugated, from the end.
    count = (size - 1) // 2
    spectrum = half
    if count:
        end = ops.slice(half, axes=[along], starts=[count], ends=[0], steps=[-1])
        spectrum = ops.concat(half, ops.conj(end), axis=along)
    scale = _scale(where, norm, True)
    return ops.real(ops.fft(spectrum, axis=along, inverse=True, norm=scale))


def _hermitian_to_real(where: str, x: Tensor, lengths: _Lengths, norm: str) -> Tensor:
    _scale(where, norm, False)
    conj = ops.conj(x) if x.dtype.is_complex else x
    return _complex_to_real(where, conj, lengths, _SWAPPED[norm])


def _real_to_hermitian(where: str, x: Tensor, lengths: _Lengths, norm: str) -> Tensor:
    _scale(where, norm, False)
    return ops.conj(_real_to_complex(where, x, lengths, _SWAPPED[norm]))


def fft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """y[k] = sum over j of x[j] exp(-2 pi i j k / n) along an axis; complex."""
    return _complex_to_complex("fft", x, [(axis, n)], norm, False)


def ifft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `fft`."""
    return _complex_to_complex("ifft", x, [(axis, n)], norm, True)


def rfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The first n // 2 + 1 elements of `fft` of a real x, which settle the others."""
    return _real_to_complex("rfft", x, [(axis, n)], norm)


def irfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default 2 * (size - 1)."""
    return _complex_to_real("irfft", x, [(axis, n)], norm)


def hfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fft` of a signal with Hermitian symmetry, given by its first half; real."""
    return _hermitian_to_real("hfft", x, [(axis, n)], norm)


def ihfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `hfft`: the first half of a signal with Hermitian symmetry."""
    return _real_to_hermitian("ihfft", x, [(axis, n)], norm)


def fftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fft` along several axes, all by default; s are their lengths."""
    return _complex_to_complex("fftn", x, _lengths("fftn", x, s, axes), norm, False)


def ifftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `fftn`."""
    return _complex_to_complex("ifftn", x, _lengths("ifftn", x, s, axes), norm, True)


def rfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` of a real x, of the last axis the first half."""
    return _real_to_complex("rfftn", x, _lengths("rfftn", x, s, axes), norm)


def irfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfftn`; real."""
    return _complex_to_real("irfftn", x, _lengths("irfftn", x, s, axes), norm)


def hfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` of a signal with Hermitian symmetry along the last axis; real."""
    return _hermitian_to_real("hfftn", x, _lengths("hfftn", x, s, axes), norm)


def ihfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `hfftn`."""
    return _real_to_hermitian("ihfftn", x, _lengths("ihfftn", x, s, axes), norm)


def fft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` along two axes."""
    return _complex_to_complex("fft2", x, _lengths("fft2", x, s, axes), norm, False)


def ifft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`ifftn` along two axes."""
    return _complex_to_complex("ifft2", x, _lengths("ifft2", x, s, axes), norm, True)


def rfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`rfftn` along two axes."""
    return _real_to_complex("rfft2", x, _lengths("rfft2", x, s, axes), norm)


def irfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`irfftn` along two axes."""
    return _complex_to_real("irfft2", x, _lengths("irfft2", x, s, axes), norm)


def hfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`hfftn` along two axes."""
    return hfftn(x, s, axes, norm)


def ihfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`ihfftn` along two axes."""
    return ihfftn(x, s, axes, norm)


def _check_samples(where: str, n: Any, d: Any) -> None:
    if as_int(where, n) < 1:
        raise InvalidArgumentError(f"[{where}] expected n to be at least 1, got {n}")
    if d == 0:
        raise InvalidArgumentError(f"[{where}] expected d other than 0, got {d}")


def fftfreq(
    n: int, d: float = 1.0, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """The frequencies of `fft`: [0, 1, .., (n - 1) // 2, -(n // 2), .., -1] / (d n)."""
    _check_samples("fftfreq", n, d)
    count = as_count("fftfreq", "n", n, 8)
    return to_tensor(np.fft.fftfreq(count, d), as_dtype(dtype or "default"))


def rfftfreq(
    n: int, d: float = 1.0, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """The frequencies of `rfft`: [0, 1, .., n // 2] / (d n)."""
    _check_samples("rfftfreq", n, d)
    count = as_count("rfftfreq", "n", n, 8)
    return to_tensor(np.fft.rfftfreq(count, d), as_dtype(dtype or "default"))


def _shifted(where: str, x: Tensor, axes: Any, sign: int) -> Tensor:
    along = list(range(x.ndim)) if axes is None else as_ints(where, axes)
    places = [present_axis(where, a, x.ndim) for a in along]
    # To the middle: n // 2 on; back from there: n // 2 towards the front.
    return roll(x, [sign * (x.shape[a] // 2) for a in places], places)


def fftshift(x: Tensor, axes: AxisLike = None, name: str | None = None) -> Tensor:
    """The zero frequency moved to the middle of axes, all by default."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Tensor, axes: AxisLike = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)
