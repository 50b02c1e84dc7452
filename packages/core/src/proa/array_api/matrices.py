"""Linear algebra of the array API standard, its extension `linalg`.

Matrices are the last two axes; those before them are batches. Floating and complex
dtypes of 32 and 64 bits a part are computed; gradients flow where Proa's operators have
them.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from proa._core import Tensor, ops
from proa.array_api import statistics as _statistics
from proa.array_api.arrays import axis_number, axis_numbers, require_tensor
from proa.array_api.data_types import finfo, result_type
from proa.array_api.products import matmul, matrix_transpose, tensordot, vecdot
from proa.base.dtype import DTypeLike
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor import decompositions as _decompositions
from proa.tensor import linear_solvers as _solvers

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv",
    "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip

_MatrixOrder = int | float | Literal["fro", "nuc"] | None


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its modulus."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, and conjugate right singular vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L of x = L L^H, or U of x = U^H U; (.., n, n), Hermitian, positive definite.

    Raises:
        InvalidArgumentError: If a matrix is not positive definite.
    """
    factor = _decompositions.cholesky(require_tensor("cholesky", x), upper)
    return ops.triu(factor, diagonal=0) if upper else ops.tril(factor, diagonal=0)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors along an axis of size 3; other axes broadcast.

    Raises:
        ShapeError: If an array has another size there.
    """
    kind = result_type(require_tensor("cross", x1), require_tensor("cross", x2))
    for x in (x1, x2):
        if x.shape[axis_number("cross", axis, x.ndim)] != 3:
            raise ShapeError("cross", f"size 3 along axis {axis}", x.shape)
    rank = max(x1.ndim, x2.ndim)
    if axis >= 0 and x1.ndim != x2.ndim:
        raise InvalidArgumentError(
            f"[cross] expected a negative axis for unlike ranks, got {axis}"
        )
    a, b = (
        [ops.select(ops.cast(x, dtype=kind), axis=axis, index=i) for i in range(3)]
        for x in (x1, x2)
    )
    parts = [
        ops.sub(ops.mul(a[i], b[j]), ops.mul(a[j], b[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return ops.stack(*parts, axis=axis_number("cross", axis, rank))


def det(x: Tensor, /) -> Tensor:
    """Determinants: (.., n, n) -> (..)."""
    return _solvers.det(require_tensor("det", x))


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal that is ``offset`` above the main one: (.., m, n) -> (.., k)."""
    if require_tensor("diagonal", x).ndim < 2:
        raise ShapeError("diagonal", "at least 2 axes", x.shape)
    m, n = x.shape[-2:]
    size = max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))
    if size == 0:
        return ops.full(shape=[*x.shape[:-2], 0], value=0, dtype=x.dtype)
    return ops.assign(ops.diagonal(x, offset=offset, axis1=-2, axis2=-1))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues (.., n) and eigenvectors (.., n, n) of Hermitian matrices."""
    return EighResult(*_decompositions.eigh(require_tensor("eigh", x)))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of Hermitian matrices, ascending: (.., n, n) -> (.., n)."""
    return eigh(x).eigenvalues


def inv(x: Tensor, /) -> Tensor:
    """The inverse matrices, (.., n, n)."""
    return _solvers.inverse(require_tensor("inv", x))


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: _MatrixOrder = "fro"
) -> Tensor:
    """A norm of matrices: (.., m, n) -> (..), real.

    Args:
        x: (.., m, n).
        keepdims: Whether the axes of matrices stay with size 1.
        ord: 'fro' (the root of the sum of squared moduli; None too), 'nuc' (the sum of
            singular values), 1, -1 (the greatest, least sum of a column's moduli), inf,
            -inf (of a row's), 2, -2 (the greatest, least singular value).
    """
    if require_tensor("matrix_norm", x).ndim < 2:
        raise ShapeError("matrix_norm", "at least 2 axes", x.shape)
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = ops.unsqueeze(svdvals(x), axis=[-1])
        reduce = {"nuc": ops.sum, 2: ops.max, -2: ops.min}[ord]
        norm: Tensor = reduce(values, axis=[-2, -1], keepdim=keepdims)
        return norm
    if ord not in (1, -1, math.inf, -math.inf):
        raise InvalidArgumentError(
            "[matrix_norm] ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got "
            f"{ord!r}"
        )
    along = -2 if ord in (1, -1) else -1
    sums = ops.sum(ops.abs(x), axis=[along], keepdim=True)
    reduce = ops.min if ord < 0 else ops.max
    norm = reduce(sums, axis=[-3 - along], keepdim=True)
    return norm if keepdims else ops.squeeze(norm, axis=[-2, -1])


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """x multiplied n times; its inverse, if n is negative; (.., k, k)."""
    return _solvers.matrix_power(require_tensor("matrix_power", x), n)


def _cutoff(x: Tensor, rtol: float | Tensor | None) -> float | Tensor:
    """The share of the greatest singular value up to which one counts as 0."""
    if rtol is None:
        return max(x.shape[-2:]) * finfo(x).eps
    return rtol


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are not negligible: (.., m, n) -> (..), int64.

    Args:
        x: (.., m, n).
        rtol: The share of the greatest singular value that others must exceed; by
            default max(m, n) times the rounding error of the dtype.
    """
    values = svdvals(require_tensor("matrix_rank", x))
    share = _cutoff(x, rtol)
    if isinstance(share, Tensor):
        share = ops.unsqueeze(share, axis=[-1])
    if values.shape[-1] == 0:
        return _statistics.sum(values, axis=-1, dtype="int64")
    bound = ops.mul(ops.max(values, axis=[-1], keepdim=True), share)
    return _statistics.sum(ops.greater_than(values, bound), axis=-1)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of two vectors: (m,), (n,) -> (m, n)."""
    for x in (x1, x2):
        if require_tensor("outer", x).ndim != 1:
            raise ShapeError("outer", "one axis", x.shape)
    return ops.mul(ops.unsqueeze(x1, axis=[1]), x2)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse: (.., m, n) -> (.., n, m).

    Args:
        x: (.., m, n).
        rtol: The share of the greatest singular value up to which one counts as 0; by
            default as of `matrix_rank`.
    """
    return _solvers.pinv(require_tensor("pinv", x), _cutoff(x, rtol))


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """x = Q R: (.., m, n) -> (.., m, k), (.., k, n).

    Args:
        x: (.., m, n).
        mode: 'reduced': k = min(m, n); 'complete': k = m.
    """
    if mode not in ("reduced", "complete"):
        raise InvalidArgumentError(
            f"[qr] mode must be 'reduced' or 'complete', got {mode!r}"
        )
    q, r = _decompositions.qr(require_tensor("qr", x), mode)
    return QRResult(q, ops.triu(r, diagonal=0))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Sign and logarithm of the modulus of determinants: (.., n, n) -> (..), (..)."""
    sign, logabsdet = ops.slogdet(
        _decompositions.check_square("slogdet", require_tensor("slogdet", x))
    )
    return SlogdetResult(sign, logabsdet)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x of x1 x = x2.

    Args:
        x1: (.., n, n), invertible.
        x2: (n,), one right-hand side for all, or (.., n, k).
    """
    kind = result_type(require_tensor("solve", x1), require_tensor("solve", x2))
    left, right = ops.cast(x1, dtype=kind), ops.cast(x2, dtype=kind)
    if x2.ndim == 1:
        column = _solvers.solve(left, ops.unsqueeze(right, axis=[1]))
        return ops.squeeze(column, axis=[-1])
    return _solvers.solve(left, right)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh: (.., m, n) -> (.., m, m), (.., k), (.., n, n), k = min(m, n).

    Args:
        x: (.., m, n).
        full_matrices: If False, U is (.., m, k) and Vh (.., k, n).
    """
    return SVDResult(*_decompositions.svd(require_tensor("svd", x), full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending: (.., m, n) -> (.., min(m, n))."""
    return svd(x, full_matrices=False).S


def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal: (.., m, n) -> (..); dtypes as of `sum`."""
    return _statistics.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """A norm of vectors along axes, all by default; real.

    Args:
        x: A floating or complex array.
        axis: The axes.
        keepdims: Whether they stay with size 1.
        ord: p of (sum of |x| ** p) ** (1 / p); inf and -inf are the greatest and least
            modulus, 0 counts elements other than 0.
    """
    size = ops.abs(require_tensor("vector_norm", x))
    axes = axis_numbers("vector_norm", axis, x.ndim)
    over = axes if axes or x.ndim == 0 else ()
    if ord == math.inf:
        return _statistics.max(size, axis=over, keepdims=keepdims)
    if ord == -math.inf:
        return _statistics.min(size, axis=over, keepdims=keepdims)
    if ord == 0:
        there = ops.cast(ops.not_equal(size, 0), dtype=size.dtype)
        return _statistics.sum(there, axis=over, keepdims=keepdims)
    if ord == 1:
        return _statistics.sum(size, axis=over, keepdims=keepdims)
    if ord == 2:
        squares = _statistics.sum(ops.square(size), axis=over, keepdims=keepdims)
        return ops.sqrt(squares)
    powers = _statistics.sum(ops.pow(size, ord), axis=over, keepdims=keepdims)
    return ops.pow(powers, 1.0 / ord)
