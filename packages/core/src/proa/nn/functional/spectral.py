"""The largest singular value of a weight, by power iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.base.random import next_key

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


def _unit(x: Tensor, eps: float) -> Tensor:
    return ops.div(x, ops.maximum(ops.sqrt(ops.sum(ops.square(x))), eps))


def unit_vector(size: int, dtype: DTypeLike, eps: float) -> Tensor:
    """A random direction."""
    seed, offset = next_key(size)
    x = ops.gaussian(
        shape=[size], mean=0.0, std=1.0, dtype=dtype, seed=seed, offset=offset
    )
    return _unit(x, eps)


def _matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as (shape[dim], the rest)."""
    dim = dim % weight.ndim
    if dim:
        order = [dim, *(a for a in range(weight.ndim) if a != dim)]
        weight = ops.transpose(weight, perm=order)
    return ops.flatten(weight, start_axis=1, stop_axis=-1)


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    """(n, m) @ (m,) -> (n,)."""
    y = ops.matmul(matrix, ops.unsqueeze(x, axis=[1]))
    return ops.squeeze(y, axis=[1])


def iterated(
    weight: Tensor, u: Tensor, v: Tensor, dim: int, rounds: int, eps: float
) -> tuple[Tensor, Tensor]:
    """u and v after rounds of power iteration towards the first singular vectors."""
    with NoTape():
        matrix = _matrix(weight.detach(), dim)
        for _ in range(rounds):
            v = _unit(_times(ops.swap_last(matrix), u), eps)
            u = _unit(_times(matrix, v), eps)
    return u, v


def power_iteration(
    weight: Tensor, u: Tensor, v: Tensor, dim: int, rounds: int, eps: float
) -> None:
    """`iterated`, in place."""
    found = iterated(weight, u, v, dim, rounds, eps)
    with NoTape():
        for vector, value in zip((u, v), found, strict=True):
            vector[...] = value


def spectral_scaled(weight: Tensor, u: Tensor, v: Tensor, dim: int) -> Tensor:
    """weight / (u^T W v); u and v count as constants."""
    # Copies: the buffers turn on at the next forward, before a late backward.
    u, v = u.detach().clone(), v.detach().clone()
    sigma = ops.sum(ops.mul(u, _times(_matrix(weight, dim), v)))
    return ops.div(weight, sigma)
