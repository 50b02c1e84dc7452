"""Linear solvers, inverses, determinants, least squares and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.creation import as_tensor
from proa.tensor.decompositions import adjoint, check_matrix, check_square
from proa.tensor.math import matmul

__all__ = [
    "cholesky_solve", "det", "inv", "inverse", "lstsq", "matrix_power", "matrix_rank",
    "multi_dot", "pinv", "slogdet", "solve", "triangular_solve",
]  # fmt: skip


def _columns(where: str, x: Tensor, y: Tensor) -> tuple[Tensor, bool]:
    """y as columns of a right-hand side of x, and whether it was a vector."""
    check_square(where, x)
    if y.ndim == 0 or y.shape[-1 if y.ndim == 1 else -2] != x.shape[-1]:
        raise ShapeError(where, f"y must have {x.shape[-1]} rows", y.shape)
    return (ops.unsqueeze(y, axis=[1]), True) if y.ndim == 1 else (y, False)


def _solved(z: Tensor, vector: bool) -> Tensor:
    return ops.squeeze(z, axis=[-1]) if vector else z


def solve(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The z with x z = y.

    Args:
        x: (.., n, n).
        y: (.., n, k) or (n,); batches broadcast.

    Raises:
        InvalidArgumentError: If a matrix is singular.
        ShapeError: If the shapes do not fit.
    """
    right, vector = _columns("solve", x, y)
    return _solved(ops.solve(x, right), vector)


def triangular_solve(
    x: Tensor,
    y: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Tensor:
    """The z with x z = y (or x^T z = y) for a triangular x.

    Args:
        x: (.., n, n); the other triangle is not read.
        y: (.., n, k) or (n,).
        upper: Whether the upper triangle counts.
        transpose: Whether x is transposed first.
        unitriangular: Whether the diagonal counts as ones.
    """
    right, vector = _columns("triangular_solve", x, y)
    left = ops.swap_last(x) if transpose else x
    z = ops.triangular_solve(left, right, upper=upper != transpose, unit=unitriangular)
    return _solved(z, vector)


def cholesky_solve(
    x: Tensor, y: Tensor, upper: bool = False, name: str | None = None
) -> Tensor:
    """The z with A z = x, where y is the Cholesky factor of A.

    Args:
        x: The right-hand side, (.., n, k).
        y: L with A = L L^H, or U with A = U^H U if upper, (.., n, n).
        upper: Whether y is U.
    """
    right, vector = _columns("cholesky_solve", y, x)
    low = adjoint(y) if upper else y
    half = ops.triangular_solve(low, right, upper=False, unit=False)
    z = ops.triangular_solve(adjoint(low), half, upper=True, unit=False)
    return _solved(z, vector)


def inverse(x: Tensor, name: str | None = None) -> Tensor:
    """The inverse of (.., n, n).

    Raises:
        InvalidArgumentError: If a matrix is singular.
    """
    return ops.inverse(check_square("inverse", x))


inv = inverse


def det(x: Tensor, name: str | None = None) -> Tensor:
    """Determinants: (.., n, n) -> (..)."""
    return ops.det(check_square("det", x))


def slogdet(x: Tensor, name: str | None = None) -> Tensor:
    """Sign and logarithm of the modulus of determinants: (.., n, n) -> (2, ..)."""
    sign, logdet = ops.slogdet(check_square("slogdet", x))
    if sign.dtype != logdet.dtype:
        logdet = ops.cast(logdet, dtype=sign.dtype)
    return ops.stack(sign, logdet, axis=0)


def matrix_power(x: Tensor, n: int, name: str | None = None) -> Tensor:
    """x multiplied n times; of the inverse if n is negative; (.., k, k)."""
    check_square("matrix_power", x)
    if not isinstance(n, int):
        raise InvalidArgumentError(f"[matrix_power] n must be an int, got {n!r}")
    if n == 0:
        one = ops.eye(rows=x.shape[-1], columns=x.shape[-1], dtype=x.dtype)
        return ops.assign(ops.broadcast_like(one, x))
    base = ops.inverse(x) if n < 0 else x
    result = base if n & 1 else None
    left = abs(n) >> 1
    while left:
        base = ops.matmul(base, base)
        if left & 1:
            result = base if result is None else ops.matmul(result, base)
        left >>= 1
    assert result is not None  # some bit of n is set
    return ops.assign(result)


def _best_splits(sizes: Sequence[int]) -> list[list[int]]:
    """Where to split the product i..j for the fewest multiplications (Cormen, 15.2)."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            ends = sizes[i] * sizes[j + 1]
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + ends * sizes[k + 1], k)
                for k in range(i, j)
            )
    return split


def multi_dot(x: Sequence[Tensor], name: str | None = None) -> Tensor:
    """The product of a chain of matrices in the cheapest order.

    Args:
        x: Two or more tensors of rank 2; the first and last may be vectors.
    """
    if len(x) < 2:
        raise InvalidArgumentError(
            f"[multi_dot] expected at least two tensors, got {len(x)}"
        )
    if any(t.ndim != 2 for t in x[1:-1]) or any(t.ndim not in (1, 2) for t in x):
        raise ShapeError("multi_dot", "all must be matrices", [t.shape for t in x])
    chain = list(x)
    first, last = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = ops.unsqueeze(chain[0], axis=[0]) if first else chain[0]
    chain[-1] = ops.unsqueeze(chain[-1], axis=[1]) if last else chain[-1]
    split = _best_splits([t.shape[0] for t in chain] + [chain[-1].shape[1]])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        return ops.matmul(product(i, split[i][j]), product(split[i][j] + 1, j))

    drop = [-2] * first + [-1] * last
    whole = product(0, len(chain) - 1)
    return ops.squeeze(whole, axis=drop) if drop else whole


def _spectrum(x: Tensor, hermitian: bool) -> Tensor:
    return ops.abs(ops.eigh(x)[0]) if hermitian else ops.svd(x)[1]


def _rounding(x: Tensor) -> float:
    double = x.dtype in ("float64", "complex128")
    return float(np.finfo("float64" if double else "float32").eps)


def matrix_rank(
    x: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    name: str | None = None,
) -> Tensor:
    """How many singular values exceed ``tol``: int64, (.., m, n) -> (..).

    Args:
        x: (.., m, n).
        tol: A number, or a tensor that broadcasts to (..); by default the greatest
            singular value times max(m, n) times the rounding error of the dtype.
        hermitian: Whether x is Hermitian; eigenvalues are cheaper.
    """
    s = _spectrum(check_matrix("matrix_rank", x), hermitian)
    if tol is None:
        tolerance = max(x.shape[-2:]) * _rounding(x)
        bound = ops.mul(ops.max(s, axis=[-1], keepdim=True), tolerance)
    else:
        bound = as_tensor(tol, s)
        bound = ops.unsqueeze(bound, axis=[-1]) if bound.ndim else bound
    hit = ops.greater_than(s, ops.cast(bound, dtype=s.dtype))
    return ops.sum(ops.cast(hit, dtype=as_dtype("int64")), axis=[-1])


def _safe_reciprocal(s: Tensor, share: Any) -> Tensor:
    """1 / s, and 0 where |s| is at most ``share`` of the greatest."""
    size = ops.abs(s)
    bound = ops.mul(ops.max(size, axis=[-1], keepdim=True), share)
    keep = ops.greater_than(size, bound)
    one, zero = (ops.full(shape=[], value=v, dtype=s.dtype) for v in (1, 0))
    return ops.where(keep, ops.reciprocal(ops.where(keep, s, one)), zero)


def pinv(
    x: Tensor,
    rcond: float | Tensor = 1e-15,
    hermitian: bool = False,
    name: str | None = None,
) -> Tensor:
    """The Moore-Penrose inverse: (.., m, n) -> (.., n, m).

    Args:
        x: (.., m, n).
        rcond: Singular values of at most this share of the greatest count as 0; a
            number or a tensor that broadcasts to (..).
        hermitian: Whether x is Hermitian; eigenvalues are cheaper.
    """
    check_matrix("pinv", x)
    share = rcond
    if isinstance(rcond, Tensor):
        share = ops.unsqueeze(rcond, axis=[-1]) if rcond.ndim else rcond
    if hermitian:
        w, v = ops.eigh(check_square("pinv", x))
        over = ops.unsqueeze(_safe_reciprocal(w, share), axis=[-2])
        return ops.matmul(ops.mul(v, over), adjoint(v))
    u, s, vh = ops.svd(x)
    over = ops.unsqueeze(_safe_reciprocal(s, share), axis=[-2])
    return ops.matmul(ops.mul(adjoint(vh), over), adjoint(u))


def lstsq(
    x: Tensor,
    y: Tensor,
    rcond: float | None = None,
    driver: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The z that makes the norm of x z - y least, and of those the shortest.

    Args:
        x: (.., m, n).
        y: (.., m, k).
        rcond: Singular values of at most this share of the greatest count as 0; by
            default max(m, n) times the rounding error of the dtype.
        driver: "gels" solves by QR and needs full rank; "gelsy" (the default),
            "gelsd" and "gelss" all solve by singular values.

    Returns:
        z (.., n, k); the sums of squares of what is left (.., k), empty unless m > n
        and x has full rank; the rank (..), int32; the singular values (.., min(m, n)),
        empty for "gels" and "gelsy".
    """
    m, n = check_matrix("lstsq", x).shape[-2:]
    if y.ndim < 2 or y.shape[-2] != m:
        raise ShapeError("lstsq", f"y must be (.., {m}, k)", y.shape)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise InvalidArgumentError(
            "[lstsq] driver must be gels, gelsy, gelsd or gelss, got " + repr(driver)
        )
    none = ops.full(shape=[0], value=0, dtype=x.dtype)
    if driver == "gels":
        z = _by_qr(x, y)
        rank = ops.full(shape=x.shape[:-2], value=min(m, n), dtype=as_dtype("int32"))
        values = none
    else:
        share = max(m, n) * _rounding(x) if rcond is None else rcond
        u, s, vh = ops.svd(x)
        over = _safe_reciprocal(s, share)
        rank = ops.sum(ops.not_equal(over, 0.0), axis=[-1])
        rank = ops.cast(rank, dtype=as_dtype("int32"))
        part = ops.mul(ops.unsqueeze(over, axis=[-1]), matmul(adjoint(u), y))
        z = ops.matmul(adjoint(vh), part)
        values = none if driver in (None, "gelsy") else s
    left = none
    if m > n and bool(ops.all(ops.equal(rank, n)).item()):
        square = ops.square(ops.abs(ops.sub(ops.matmul(x, z), y)))
        left = ops.sum(square, axis=[-2])
    return z, left, rank, values


def _by_qr(x: Tensor, y: Tensor) -> Tensor:
    m, n = x.shape[-2:]
    if m >= n:
        q, r = ops.qr(x)
        return ops.triangular_solve(
            r, ops.matmul(adjoint(q), y), upper=True, unit=False
        )
    q, r = ops.qr(adjoint(x))
    half = ops.triangular_solve(adjoint(r), y, upper=False, unit=False)
    return ops.matmul(q, half)
