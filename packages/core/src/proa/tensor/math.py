"""Elementwise functions, scans and products that are more than one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor.arguments import (
    as_count,
    as_int,
    cast_if,
    is_floating,
    normal_axis,
    present_axis,
    written,
)
from proa.tensor.creation import as_tensor

if TYPE_CHECKING:
    from proa.base.typing import ScalarLike

__all__ = [
    "add_n", "addmm", "angle", "bmm", "cast", "clip", "cumprod", "cumsum", "deg2rad",
    "diff", "dot", "fmax", "fmin", "frac", "heaviside", "increment", "inner", "kron",
    "lerp", "logit", "matmul", "mm", "mv", "outer", "rad2deg", "scale", "stanh",
    "trace",
]  # fmt: skip


def cast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """x in another element type."""
    return ops.cast(x, dtype=as_dtype(dtype))


#: Activations that `scale` applies by name, which have forms in place.
_ACTIVATIONS = frozenset({
    "abs", "ceil", "cos", "exp", "floor", "log", "reciprocal", "relu", "round",
    "rsqrt", "sigmoid", "silu", "sin", "sqrt", "square", "tanh",
})  # fmt: skip


def activated(where: str, x: Tensor, act: str, form: str = "") -> Tensor:
    """The activation of that name of x; `form` is "_" for that in place."""
    if act not in _ACTIVATIONS:
        raise InvalidArgumentError(
            f"[{where}] expected act to be one of {sorted(_ACTIVATIONS)}, got {act!r}"
        )
    result: Tensor = getattr(ops, act + form)(x)
    return result


def scale(
    x: Tensor,
    scale: float | Tensor = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """scale * x + bias, or scale * (x + bias)."""
    if isinstance(scale, Tensor):
        shifted = x if bias_after_scale else ops.add(x, bias)
        y = ops.mul(shifted, scale)
        y = ops.add(y, bias) if bias_after_scale else y
    else:
        offset = bias if bias_after_scale else bias * scale
        y = ops.scale(x, scale=float(scale), bias=float(offset))
    return y if act is None else activated("scale", y, act)


def clip(
    x: Tensor,
    min: ScalarLike | None = None,
    max: ScalarLike | None = None,
    name: str | None = None,
) -> Tensor:
    """x limited to [min, max]; a bound that is None does not limit."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        y = x if min is None else ops.maximum(x, min)
        return y if max is None else ops.minimum(y, max)
    low, high = clip_bounds(x, min, max)
    return ops.clip(x, min=low, max=high)


def _whole(bound: Any) -> int:
    if bound != bound:
        raise InvalidArgumentError("[clip] expected integer bounds, got nan")
    return int(bound)


def clip_bounds(x: Tensor, low: Any, high: Any) -> tuple[Any, Any]:
    """Numbers for the bounds of `clip`, the widest of the dtype for None."""
    if is_floating(x):
        return (
            float("-inf") if low is None else float(low),
            float("inf") if high is None else float(high),
        )
    bits = x.element_size() * 8
    signed = x.dtype != "uint8"
    lowest = -(2 ** (bits - 1)) if signed else 0
    greatest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return (
        lowest if low is None else _whole(low),
        greatest if high is None else _whole(high),
    )


def add_n(inputs: Tensor | Sequence[Tensor | None], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape; those that are None are passed over."""
    if isinstance(inputs, Tensor):
        return ops.assign(inputs)
    given = [t for t in inputs if isinstance(t, Tensor)]
    if not given:
        raise InvalidArgumentError("[add_n] expected at least one tensor, got none")
    total = given[0]
    if len(given) == 1:
        return ops.assign(total)
    for t in given[1:]:
        if t.shape != total.shape:
            raise ShapeError("add_n", f"every shape must be {total.shape}", t.shape)
        total = ops.add(total, t)
    return total


def increment(x: Tensor, value: float = 1.0, name: str | None = None) -> Tensor:
    """Add ``value`` to x in place, without its fraction if x has integers."""
    return ops.add_(x, int(value) if x.dtype.is_integer else value)


def fmax(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The greater of x and y; the other where one is NaN."""
    greater = ops.maximum(x, y)
    inner = ops.where(ops.isnan(y), _spread(x, greater), greater)
    return ops.where(ops.isnan(x), _spread(y, greater), inner)


def _spread(x: Tensor, like: Tensor) -> Tensor:
    return ops.broadcast_like(cast_if(x, like.dtype), like)


def fmin(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The lesser of x and y; the other where one is NaN."""
    lesser = ops.minimum(x, y)
    inner = ops.where(ops.isnan(y), _spread(x, lesser), lesser)
    return ops.where(ops.isnan(x), _spread(y, lesser), inner)


def frac(x: Tensor, name: str | None = None) -> Tensor:
    """x minus its integer part.

    Raises:
        InvalidTypeError: If x is bool or complex.
    """
    if x.dtype == "bool" or x.dtype.is_complex:
        raise InvalidTypeError(
            f"[frac] expected x to be floating or integer, got {x.dtype}"
        )
    return ops.sub(x, ops.trunc(x))


def lerp(
    x: Tensor, y: Tensor, weight: float | Tensor, name: str | None = None
) -> Tensor:
    """x + weight * (y - x)."""
    return ops.add(x, ops.mul(ops.sub(y, x), weight))


def logit(x: Tensor, eps: float | None = None, name: str | None = None) -> Tensor:
    """log(x / (1 - x)), x first limited to [eps, 1 - eps] if eps is given."""
    p = x if eps is None else ops.clip(x, min=eps, max=1.0 - eps)
    return ops.log(ops.div(p, ops.sub(1.0, p)))


def heaviside(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """0 where x < 0, y where x == 0, 1 where x > 0."""
    total = ops.add(ops.mul(x, 0), ops.mul(y, 0))
    step = cast_if(ops.greater_than(x, 0), total.dtype)
    at_zero = ops.broadcast_like(cast_if(y, total.dtype), total)
    zero = ops.broadcast_like(ops.equal(x, 0), total)
    return ops.where(zero, at_zero, ops.broadcast_like(step, total))


def deg2rad(x: Tensor, name: str | None = None) -> Tensor:
    """Degrees to radians."""
    return ops.mul(x, 0.017453292519943295)


def rad2deg(x: Tensor, name: str | None = None) -> Tensor:
    """Radians to degrees."""
    return ops.mul(x, 57.29577951308232)


def stanh(
    x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Tensor:
    """scale_b * tanh(scale_a * x)."""
    return ops.scale(ops.tanh(ops.scale(x, scale=scale_a)), scale=scale_b)


def angle(x: Tensor, name: str | None = None) -> Tensor:
    """The argument of complex numbers; of real ones 0 or pi."""
    if x.dtype.is_complex:
        return ops.atan2(ops.imag(x), ops.real(x))
    return ops.atan2(ops.mul(x, 0.0), x)


def cumsum(
    x: Tensor,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Running sum along an axis, or over all elements if axis is None."""
    y = cast_if(x, dtype)
    if axis is None:
        return ops.cumsum(ops.reshape(y, shape=[-1]), axis=0)
    return ops.cumsum(y, axis=as_int("cumsum", axis))


def cumprod(
    x: Tensor,
    dim: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Running product along an axis, or over all elements if dim is None."""
    y = cast_if(x, dtype)
    along = 0 if dim is None else normal_axis("cumprod", as_int("cumprod", dim), y.ndim)
    y = ops.reshape(y, shape=[-1]) if dim is None else y
    return ops.cumprod(y, axis=along)


def diff(
    x: Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, n times; none are left of n elements."""
    order = as_count("diff", "n", n)  # no array is longer
    if order < 0:
        raise InvalidArgumentError(f"[diff] expected n of at least 0, got {order}")
    parts = [t for t in (prepend, x, append) if t is not None]
    y = ops.concat(*parts, axis=axis) if len(parts) > 1 else x
    end, length = 2**63 - 1, y.shape[present_axis("diff", as_int("diff", axis), y.ndim)]
    for _ in range(order if length < 0 else min(order, length)):
        later = ops.slice(y, axes=[axis], starts=[1], ends=[end], steps=[1])
        earlier = ops.slice(y, axes=[axis], starts=[0], ends=[-1], steps=[1])
        is_bool = y.dtype == "bool"
        y = ops.not_equal(later, earlier) if is_bool else ops.sub(later, earlier)
    return y


def matmul(
    x: Tensor,
    y: Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Tensor:
    """Matrix product over the last two axes, the axes before broadcast.

    A vector is a row on the left and a column on the right; its axis is then removed.
    """
    # What is no tensor is left to the op, which says so.
    x_rank, y_rank = getattr(x, "ndim", 2), getattr(y, "ndim", 2)
    if x_rank > 1 and y_rank > 1:
        a = ops.swap_last(x) if transpose_x else x
        b = ops.swap_last(y) if transpose_y else y
        return ops.matmul(a, b)
    if x_rank == 0 or y_rank == 0:
        raise ShapeError("matmul", "both must have an axis", (x.shape, y.shape))
    a = ops.unsqueeze(x, axis=[0]) if x_rank == 1 else x
    b = ops.unsqueeze(y, axis=[1]) if y_rank == 1 else y
    a = ops.swap_last(a) if transpose_x and x_rank > 1 else a
    b = ops.swap_last(b) if transpose_y and y_rank > 1 else b
    drop = [-2] * (x_rank == 1) + [-1] * (y_rank == 1)
    return ops.squeeze(ops.matmul(a, b), axis=drop)


def mm(
    input: Tensor, mat2: Tensor, name: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Matrix product without transposition, written into ``out`` if given."""
    return written(matmul(input, mat2), out)


def bmm(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Batched product of (b, n, k) and (b, k, m)."""
    if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0]:
        raise ShapeError(
            "bmm", "x and y must be (b, n, k) and (b, k, m)", (x.shape, y.shape)
        )
    return ops.matmul(x, y)


def mv(x: Tensor, vec: Tensor, name: str | None = None) -> Tensor:
    """Matrix times vector."""
    return matmul(x, vec)


def dot(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Inner product over the last axis of vectors or batches of vectors."""
    if x.ndim != y.ndim or x.ndim not in (1, 2):
        raise ShapeError(
            "dot", "x and y must both be vectors or both (b, n)", (x.shape, y.shape)
        )
    return ops.sum(ops.mul(x, y), axis=[-1])


def inner(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Sum of products over the last axes of x and y."""
    if x.ndim == 0 or y.ndim == 0:
        return ops.mul(x, y)
    flat = matmul(
        ops.reshape(x, shape=[-1, x.shape[-1]]),
        ops.reshape(y, shape=[-1, y.shape[-1]]),
        transpose_y=True,
    )
    return ops.reshape(flat, shape=[*x.shape[:-1], *y.shape[:-1]])


def outer(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Every product of an element of x with one of y, (n, m)."""
    return ops.mul(ops.reshape(x, shape=[-1, 1]), ops.reshape(y, shape=[1, -1]))


def addmm(
    input: Tensor,
    x: Tensor,
    y: Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """beta * input + alpha * (x @ y)."""
    product = matmul(x, y)
    product = product if alpha == 1.0 else ops.mul(product, alpha)
    return ops.add(input if beta == 1.0 else ops.mul(input, beta), product)


def kron(
    x: Tensor, y: Tensor, name: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Kronecker product, written into ``out`` if given."""
    x, y = as_tensor(x), as_tensor(y)
    rank = max(x.ndim, y.ndim)
    a = [1] * (rank - x.ndim) + x.shape
    b = [1] * (rank - y.ndim) + y.shape
    left = [v for size in a for v in (size, 1)]
    right = [v for size in b for v in (1, size)]
    product = ops.mul(ops.reshape(x, shape=left), ops.reshape(y, shape=right))
    blocks = ops.reshape(product, shape=[p * q for p, q in zip(a, b, strict=True)])
    return written(blocks, out)


def trace(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Tensor:
    """Sum of a diagonal."""
    line = ops.diagonal(x, offset=offset, axis1=axis1, axis2=axis2)
    return ops.sum(line, axis=[-1])
