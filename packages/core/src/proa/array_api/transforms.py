"""Discrete Fourier transforms of the array API standard, its extension `fft`.

A norm says what is divided by: 'backward' the inverse by n, 'forward' the transform by
n, 'ortho' both by sqrt(n). A size cuts an axis or fills it with zeros. Dtypes keep
their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from proa._core import Tensor, ops
from proa.array_api.arrays import axis_numbers, check_device, require_tensor
from proa.base.device import Place
from proa.tensor import fourier as _fourier

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

_Norm = Literal["backward", "ortho", "forward"]


def fft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """y[k] = sum over j of x[j] exp(-2 pi i j k / n) along an axis; complex."""
    return _fourier.fft(require_tensor("fft", x), n, axis, norm)


def ifft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """The inverse of `fft`; complex."""
    return _fourier.ifft(require_tensor("ifft", x), n, axis, norm)


def rfft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """The first n // 2 + 1 values of `fft` of real numbers; complex."""
    return _fourier.rfft(require_tensor("rfft", x), n, axis, norm)


def irfft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """The inverse of `rfft`, n real numbers: by default twice one less than given."""
    return _fourier.irfft(require_tensor("irfft", x), n, axis, norm)


def hfft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """`fft`, n real numbers, of one half of a sequence that is Hermitian."""
    return _fourier.hfft(require_tensor("hfft", x), n, axis, norm)


def ihfft(
    x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: _Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 values; complex."""
    return _fourier.ihfft(require_tensor("ihfft", x), n, axis, norm)


def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: _Norm = "backward",
) -> Tensor:
    """`fft` along each of several axes."""
    return _fourier.fftn(require_tensor("fftn", x), s, axes, norm)


def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: _Norm = "backward",
) -> Tensor:
    """The inverse of `fftn`."""
    return _fourier.ifftn(require_tensor("ifftn", x), s, axes, norm)


def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: _Norm = "backward",
) -> Tensor:
    """`rfft` along the last of several axes, `fft` along the others."""
    return _fourier.rfftn(require_tensor("rfftn", x), s, axes, norm)


def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: _Norm = "backward",
) -> Tensor:
    """The inverse of `rfftn`; real."""
    return _fourier.irfftn(require_tensor("irfftn", x), s, axes, norm)


def fftfreq(n: int, /, *, d: float = 1.0, device: Place | None = None) -> Tensor:
    """The frequencies of `fft`: [0, 1, .., (n - 1) // 2, -(n // 2), .., -1] / (d n)."""
    check_device("fftfreq", device)
    return _fourier.fftfreq(n, d)


def rfftfreq(n: int, /, *, d: float = 1.0, device: Place | None = None) -> Tensor:
    """The frequencies of `rfft`: [0, 1, .., n // 2] / (d n)."""
    check_device("rfftfreq", device)
    return _fourier.rfftfreq(n, d)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The zero frequency moved to the middle of axes, all by default."""
    along = axis_numbers("fftshift", axes, require_tensor("fftshift", x).ndim)
    return _fourier.fftshift(x, list(along)) if along else ops.assign(x)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    along = axis_numbers("ifftshift", axes, require_tensor("ifftshift", x).ndim)
    return _fourier.ifftshift(x, list(along)) if along else ops.assign(x)
