"""Discrete Fourier transforms: `proa.fft` has their conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

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
from proa.tensor.manipulation import TO_END, roll

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft",
    "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Scale: TypeAlias = Literal["none", "ortho", "mean"]
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


def _complex(
    where: str, x: Tensor, n: int | None, axis: int, norm: str, inverse: bool
) -> Tensor:
    along = present_axis(where, axis, x.ndim)
    scale = _scale(where, norm, inverse)
    y = _sized(where, as_complex_numbers(_floating(x)), n, along)
    return ops.fft(y, axis=along, inverse=inverse, norm=scale)


def _half(where: str, x: Tensor, n: int | None, axis: int, norm: str) -> Tensor:
    along = present_axis(where, axis, x.ndim)
    y = _complex(where, _real(where, x), n, along, norm, False)
    half = y.shape[along] // 2 + 1
    return ops.slice(y, axes=[along], starts=[0], ends=[half], steps=[1])


def _whole(where: str, x: Tensor, n: int | None, axis: int, norm: str) -> Tensor:
    """The real tensor whose transform begins with x."""
    along = present_axis(where, axis, x.ndim)
    size = 2 * (x.shape[along] - 1) if n is None else as_int(where, n)
    if size < 1:
        raise InvalidArgumentError(f"[{where}] n must be at least 1, got {size}")
    half = _sized(where, as_complex_numbers(_floating(x)), size // 2 + 1, along)
    # Elements 1 .. (size - 1) // 2 once more, conjugated, from the end.
    count = (size - 1) // 2
    flipped = ops.slice(
        half,
        axes=[along],
        starts=[count],
        ends=[0 if count else TO_END],
        steps=[-1 if count else 1],
    )
    parts = [half, ops.conj(flipped)] if count else [half]
    spectrum = ops.concat(*parts, axis=along) if count else half
    scale = _scale(where, norm, True)
    return ops.real(ops.fft(spectrum, axis=along, inverse=True, norm=scale))


def _axes_of(
    where: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> list[tuple[int, int | None]]:
    """(axis, size or None) of each transform."""
    sizes = None if s is None else as_ints(where, s)
    if axes is None:
        count = x.ndim if sizes is None else len(sizes)
        along = list(range(x.ndim - count, x.ndim))
    else:
        along = as_ints(where, axes)
    if sizes is not None and len(sizes) != len(along):
        raise InvalidArgumentError(
            f"[{where}] s and axes must be of one length, got {sizes} and {along}"
        )
    places = [present_axis(where, a, x.ndim) for a in along]
    if len(set(places)) < len(places) or not places:
        raise InvalidArgumentError(
            f"[{where}] axes must differ and there must be one, got {along}"
        )
    lengths: Sequence[int | None] = sizes or [None] * len(places)
    return list(zip(places, lengths, strict=True))


def _many(where: str, x: Tensor, s: Any, axes: Any, norm: str, inverse: bool) -> Tensor:
    for axis, n in _axes_of(where, x, s, axes):
        x = _complex(where, x, n, axis, norm, inverse)
    return x


def _half_many(where: str, x: Tensor, s: Any, axes: Any, norm: str) -> Tensor:
    *others, (last, n) = _axes_of(where, x, s, axes)
    y = _half(where, x, n, last, norm)
    for axis, size in others:
        y = _complex(where, y, size, axis, norm, False)
    return y


def _whole_many(where: str, x: Tensor, s: Any, axes: Any, norm: str) -> Tensor:
    *others, (last, n) = _axes_of(where, x, s, axes)
    for axis, size in others:
        x = _complex(where, x, size, axis, norm, True)
    return _whole(where, x, n, last, norm)


def fft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """y[k] = sum over j of x[j] exp(-2 pi i j k / n) along an axis; complex."""
    return _complex("fft", x, n, axis, norm, False)


def ifft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `fft`."""
    return _complex("ifft", x, n, axis, norm, True)


def rfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The first n // 2 + 1 elements of `fft` of a real x, which settle the others."""
    return _half("rfft", x, n, axis, norm)


def irfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default 2 * (size - 1)."""
    return _whole("irfft", x, n, axis, norm)


def hfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fft` of a signal with Hermitian symmetry, given by its first half; real."""
    _scale("hfft", norm, False)
    return _whole("hfft", _conj(x), n, axis, _SWAPPED[norm])


def ihfft(
    x: Tensor,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `hfft`: the first half of a signal with Hermitian symmetry."""
    _scale("ihfft", norm, False)
    return ops.conj(_half("ihfft", x, n, axis, _SWAPPED[norm]))


def _conj(x: Tensor) -> Tensor:
    return ops.conj(x) if x.dtype.is_complex else x


def fftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fft` along several axes, all by default; s are their lengths."""
    return _many("fftn", x, s, axes, norm, False)


def ifftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `fftn`."""
    return _many("ifftn", x, s, axes, norm, True)


def rfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` of a real x, of the last axis the first half."""
    return _half_many("rfftn", x, s, axes, norm)


def irfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfftn`; real."""
    return _whole_many("irfftn", x, s, axes, norm)


def hfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` of a signal with Hermitian symmetry along the last axis; real."""
    _scale("hfftn", norm, False)
    return _whole_many("hfftn", _conj(x), s, axes, _SWAPPED[norm])


def ihfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `hfftn`."""
    _scale("ihfftn", norm, False)
    return ops.conj(_half_many("ihfftn", x, s, axes, _SWAPPED[norm]))


def fft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`fftn` along two axes."""
    return _many("fft2", x, s, axes, norm, False)


def ifft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`ifftn` along two axes."""
    return _many("ifft2", x, s, axes, norm, True)


def rfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`rfftn` along two axes."""
    return _half_many("rfft2", x, s, axes, norm)


def irfft2(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """`irfftn` along two axes."""
    return _whole_many("irfft2", x, s, axes, norm)


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


def fftshift(x: Tensor, axes: Any = None, name: str | None = None) -> Tensor:
    """The zero frequency moved to the middle of axes, all by default."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Tensor, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)
