"""Norms, distances and small matrix work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints, cast_if, normal_axis
from proa.tensor.decompositions import adjoint, check_matrix, check_square, cholesky
from proa.tensor.linear_solvers import inverse

if TYPE_CHECKING:
    from proa.tensor.arguments import AxisLike

__all__ = ["cholesky", "cross", "dist", "inverse", "norm", "t"]


def _p_norm(x: Tensor, p: float, axis: list[int], keepdim: bool) -> Tensor:
    size = ops.abs(x)
    if p == math.inf:
        return ops.max(size, axis=axis, keepdim=keepdim)
    if p == -math.inf:
        return ops.min(size, axis=axis, keepdim=keepdim)
    if p == 0:
        hit = ops.cast(ops.not_equal(size, 0.0), dtype=size.dtype)
        return ops.sum(hit, axis=axis, keepdim=keepdim)
    if p == 1:
        return ops.sum(size, axis=axis, keepdim=keepdim)
    if p == 2:
        total = ops.sum(ops.square(size), axis=axis, keepdim=keepdim)
    else:
        total = ops.sum(ops.pow(size, float(p)), axis=axis, keepdim=keepdim)

    # The root has no slope at 0; there the gradient is taken as 0 instead of NaN.
    nought = ops.equal(total, 0.0)
    one = ops.full(shape=[], value=1, dtype=total.dtype)
    zero = ops.full(shape=[], value=0, dtype=total.dtype)
    safe = ops.where(nought, one, total)
    root = ops.sqrt(safe) if p == 2 else ops.pow(safe, 1.0 / p)
    return ops.where(nought, zero, root)


def norm(
    x: Tensor,
    p: float | str = "fro",
    axis: AxisLike = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """The p-norm (sum of abs(x) ** p) ** (1 / p) over axes.

    It differs from `numpy.linalg.norm`: over two axes a number p gives this same sum
    over both, not the operator norm of the matrices (with inf the greatest modulus, not
    the greatest sum of a row), "fro" is admitted over any axes (the 2-norm), and
    without axes all elements count for every p. "nuc", the sum of singular values, is
    as in NumPy.

    Args:
        x: Any shape.
        p: A number, inf, -inf, 0 (counts), "fro", or "nuc" over two axes.
        axis: An axis or several; None takes all elements.
        keepdim: Whether the axes stay with size 1.

    Raises:
        InvalidArgumentError: If p is unknown or "nuc" has not two axes.
    """
    axes = [] if axis is None else as_ints("norm", axis)
    if p == "nuc":
        return _nuclear(x, axes, keepdim)
    if isinstance(p, str):
        if p != "fro":
            raise InvalidArgumentError(
                f"[norm] p must be 'fro', 'nuc' or a number, got {p!r}"
            )
        p = 2.0
    return _p_norm(x, float(p), axes, keepdim)


def _nuclear(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    pair = [normal_axis("norm", a, x.ndim) for a in axes or range(x.ndim)]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise InvalidArgumentError(
            f"[norm] the nuclear norm needs two axes, got {axes} of {x.shape}"
        )
    rest = [a for a in range(x.ndim) if a not in pair]
    total = ops.sum(ops.svd(ops.transpose(x, perm=rest + pair))[1], axis=[-1])
    return ops.unsqueeze(total, axis=sorted(pair)) if keepdim else total


def _operator_norm(x: Tensor, p: float | str) -> Tensor:
    if isinstance(p, str):
        return norm(x, p, [-2, -1])
    along = -2 if abs(p) == 1 else -1
    sums = ops.sum(ops.abs(x), axis=[along])
    last = [-1]
    return ops.max(sums, axis=last) if p > 0 else ops.min(sums, axis=last)


def cond(x: Tensor, p: float | str | None = None, name: str | None = None) -> Tensor:
    """Condition numbers norm(x) * norm(x^-1) of matrices: (.., m, n) -> (..).

    Args:
        x: (.., m, n); square unless p is None, 2 or -2.
        p: None or 2: greatest over least singular value, -2 the inverse of that; 1, -1:
            greatest, least sum of a column; inf, -inf: of a row; "fro"; "nuc".

    Raises:
        InvalidArgumentError: If a matrix is singular (but for p None, 2, -2).
    """
    if p in (None, 2, -2):
        s = ops.svd(check_matrix("cond", x))[1]
        largest, smallest = (ops.select(s, axis=-1, index=i) for i in (0, -1))
        return ops.div(smallest, largest) if p == -2 else ops.div(largest, smallest)
    if p not in (1, -1, math.inf, -math.inf, "fro", "nuc"):
        raise InvalidArgumentError(
            "[cond] p must be None, 1, 2, inf (also negative), 'fro' or 'nuc', "
            f"got {p!r}"
        )
    y = ops.inverse(check_square("cond", x))
    return ops.mul(_operator_norm(x, p), _operator_norm(y, p))


def cov(
    x: Tensor,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """Covariances of variables, weighted as `numpy.cov` does.

    Args:
        x: (variables, observations), the other way round if not rowvar; or one vector.
        rowvar: Whether each row is a variable.
        ddof: Whether the sum is divided by one less than the weight of all.
        fweights: Whole numbers, how often each observation counts.
        aweights: Weights of the observations.
    """
    if x.ndim > 2:
        raise ShapeError("cov", "x must have at most 2 axes", x.shape)
    rows = ops.reshape(x, shape=[1, -1]) if x.ndim < 2 else x
    rows = ops.swap_last(rows) if x.ndim == 2 and not rowvar else rows
    weight: Tensor | None = None
    for given in (fweights, aweights):
        if given is not None:
            w = cast_if(given, rows.dtype)
            weight = w if weight is None else ops.mul(weight, w)
    count = rows.shape[1]
    if weight is None:
        centred = ops.sub(rows, ops.mean(rows, axis=[1], keepdim=True))
        other, total = centred, float(count)
        scale: Any = 1.0 / (total - ddof) if total > ddof else math.nan
    else:
        whole = ops.sum(weight)
        mean = ops.div(ops.sum(ops.mul(rows, weight), axis=[1], keepdim=True), whole)
        centred = ops.sub(rows, mean)
        other = ops.mul(centred, weight)
        if ddof and aweights is not None:
            again = ops.sum(ops.mul(weight, cast_if(aweights, rows.dtype)))
            whole = ops.sub(whole, ops.div(again, whole))
        elif ddof:
            whole = ops.sub(whole, 1.0)
        scale = ops.reciprocal(whole)
    product = ops.mul(ops.matmul(other, adjoint(centred)), scale)
    return ops.reshape(product, shape=[]) if x.ndim < 2 else product


def corrcoef(x: Tensor, rowvar: bool = True, name: str | None = None) -> Tensor:
    """Correlations of variables, the covariances over their standard deviations."""
    c = cov(x, rowvar)
    if c.ndim == 0:
        return ops.div(c, c)
    spread = ops.sqrt(ops.abs(ops.diagonal(c)))
    over = ops.mul(ops.unsqueeze(spread, axis=[1]), ops.unsqueeze(spread, axis=[0]))
    return ops.div(c, over)


def dist(x: Tensor, y: Tensor, p: float = 2, name: str | None = None) -> Tensor:
    """The p-norm of x - y."""
    return _p_norm(ops.sub(x, y), float(p), [], False)


def t(input: Tensor, name: str | None = None) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    if input.ndim > 2:
        raise InvalidArgumentError(f"[t] rank must be at most 2, got {input.ndim}")
    return ops.swap_last(input) if input.ndim == 2 else ops.assign(input)


def cross(
    x: Tensor, y: Tensor, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Cross product along an axis of size 3 (by default the first such)."""
    if axis is None or axis == 9:
        found = [i for i, n in enumerate(x.shape) if n == 3]
        if not found:
            raise InvalidArgumentError(
                f"[cross] x must have an axis of size 3, got {x.shape}"
            )
        axis = found[0]
    a = [ops.select(x, axis=axis, index=i) for i in range(3)]
    b = [ops.select(y, axis=axis, index=i) for i in range(3)]
    parts = [
        ops.sub(ops.mul(a[i], b[j]), ops.mul(a[j], b[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return ops.stack(*parts, axis=axis)
