"""Complex numbers as pairs of real ones, and the other way."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError

__all__ = ["as_complex", "as_real", "polar", "sgn"]


def as_complex(x: Tensor, name: str | None = None) -> Tensor:
    """x[..., 0] + i x[..., 1]: real (.., 2) -> complex (..)."""
    if x.ndim == 0 or x.shape[-1] != 2:
        raise ShapeError("as_complex", "the last axis of x must be 2", x.shape)
    return ops.make_complex(
        ops.select(x, axis=-1, index=0), ops.select(x, axis=-1, index=1)
    )


def as_real(x: Tensor, name: str | None = None) -> Tensor:
    """Real and imaginary parts along a new last axis: complex (..) -> real (.., 2)."""
    if not x.dtype.is_complex:
        raise InvalidArgumentError(f"[as_real] x must be complex, got {x.dtype}")
    return ops.stack(ops.real(x), ops.imag(x), axis=-1)


def polar(abs: Tensor, angle: Tensor, name: str | None = None) -> Tensor:
    """The complex numbers of these moduli and angles, abs * exp(i angle)."""
    return ops.make_complex(ops.mul(abs, ops.cos(angle)), ops.mul(abs, ops.sin(angle)))


def sgn(x: Tensor, name: str | None = None) -> Tensor:
    """x / abs(x), 0 where x is 0; of real numbers the sign."""
    return ops.sign(x)
