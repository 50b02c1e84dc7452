"""Random tensors. The same seed gives the same numbers on any thread count."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.mode import static_builder
from proa.base.random import next_key
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import IntsLike, as_count, as_int, as_ints, check_rank
from proa.tensor.symbolic_dims import has_symbolic_dims, of_shape

__all__ = [
    "bernoulli", "gaussian", "multinomial", "normal", "rand", "randint",
    "randint_like", "randn", "randperm", "standard_normal", "uniform",
]  # fmt: skip


def _sizes(where: str, shape: IntsLike) -> list[int]:
    """The sizes; in static mode some may be unknown, -1, until the program runs."""
    if has_symbolic_dims(shape) and static_builder() is not None:
        return [int(n) for n in shape]
    return as_ints(where, shape)


def uniform(
    shape: IntsLike,
    dtype: DTypeLike | None = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Tensor:
    """Uniform in [min, max). A ``seed`` other than 0 always gives the same."""
    size = _sizes("uniform", shape)
    key, offset = next_key(as_count("uniform", "shape", math.prod(size)), seed)
    result = ops.uniform(
        shape=size, low=float(min), high=float(max),
        dtype=as_dtype(dtype or "default"), seed=key, offset=offset,
    )  # fmt: skip
    return of_shape(result, shape)


def gaussian(
    shape: IntsLike,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers."""
    size = _sizes("gaussian", shape)
    key, offset = next_key(as_count("gaussian", "shape", math.prod(size)), seed)
    result = ops.gaussian(
        shape=size, mean=float(mean), std=float(std),
        dtype=as_dtype(dtype or "default"), seed=key, offset=offset,
    )  # fmt: skip
    return of_shape(result, shape)


def rand(
    shape: IntsLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """Uniform in [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0)


def randn(
    shape: IntsLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """Standard normal."""
    return gaussian(shape, dtype=dtype)


standard_normal = randn


def normal(
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    shape: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal with a mean and deviation, which may be tensors (then they give the
    shape).
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        total = ops.add(
            ops.mul(mean, 0.0) if isinstance(mean, Tensor) else mean,
            ops.mul(std, 0.0) if isinstance(std, Tensor) else std,
        )
        noise = gaussian(total.shape, dtype=total.dtype)
        return ops.add(ops.mul(noise, std), mean)
    return gaussian([1] if shape is None else shape, mean, std)


def randint(
    low: int = 0,
    high: int | None = None,
    shape: IntsLike = (1,),
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniform integers in [low, high), or [0, low) if high is None."""
    if high is None:
        low, high = 0, low
    low, high = as_int("randint", low), as_int("randint", high)
    if low >= high:
        raise InvalidArgumentError(
            f"[randint] low must be below high, got {low} and {high}"
        )
    size = _sizes("randint", shape)
    key, offset = next_key(as_count("randint", "shape", math.prod(size)))
    result = ops.randint(
        shape=size, low=low, high=high, dtype=as_dtype(dtype or "int64"),
        seed=key, offset=offset,
    )  # fmt: skip
    return of_shape(result, shape)


def randint_like(
    x: Tensor,
    low: int = 0,
    high: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniform integers in the shape (and dtype) of x."""
    drawn = randint(low, high, x.shape, "int64")
    return ops.cast(drawn, dtype=x.dtype if dtype is None else as_dtype(dtype))


def randperm(n: int, dtype: DTypeLike = "int64", name: str | None = None) -> Tensor:
    """A random order of 0 .. n - 1."""
    count = as_count("randperm", "n", n, 8)
    key, offset = next_key(2 * count)
    return ops.randperm(count=count, dtype=as_dtype(dtype), seed=key, offset=offset)


def bernoulli(x: Tensor, name: str | None = None) -> Tensor:
    """1 with probability x, else 0."""
    key, offset = next_key(x.size)
    return ops.bernoulli(x, seed=key, offset=offset)


def _check_weights(x: Tensor) -> None:
    """Raise unless each row of x holds finite weights of which one is positive."""
    low, total = ops.min(x, axis=[]).item(), ops.sum(x, axis=[-1])
    if not low >= 0 or not bool(ops.all(ops.greater_than(total, 0.0), axis=[]).item()):
        raise InvalidArgumentError(
            "[multinomial] expected x of weights of at least 0 with a sum greater "
            f"than 0 in each row, got a weight of {low}"
        )


def multinomial(
    x: Tensor, num_samples: int = 1, replacement: bool = False, name: str | None = None
) -> Tensor:
    """Indices drawn by the (unnormalised) probabilities in the last axis of x.

    Without replacement by the Gumbel top-k trick: the k greatest of log p + noise.
    """
    check_rank("multinomial", "x", x, 1, 2)
    rows: Sequence[int] = x.shape[:-1]
    classes = x.shape[-1]
    if num_samples < 1:
        raise InvalidArgumentError(
            f"[multinomial] expected num_samples of at least 1, got {num_samples}"
        )
    if not replacement and num_samples > classes:
        raise InvalidArgumentError(
            f"[multinomial] num_samples without replacement must be at most {classes}, "
            f"got {num_samples}"
        )
    draws = [num_samples] if replacement else []
    if not x._is_symbolic:
        _check_weights(x)
    noise = uniform([*draws, *rows, classes], "float64", 1e-300, 1.0)
    gumbel = ops.neg(ops.log(ops.neg(ops.log(noise))))
    score = ops.add(ops.log(ops.cast(x, dtype=as_dtype("float64"))), gumbel)
    if replacement:
        picked = ops.argmax(score, axis=-1)  # (draws, ..)
        return ops.transpose(picked, perm=[*range(1, picked.ndim), 0])
    return ops.topk(score, k=num_samples, axis=-1)[1]
