"""Factorisations of matrices: Cholesky, LU, QR, eigenvalues, singular values.

A matrix is the last two axes, the axes before are a batch. Element types are float32,
float64, complex64 and complex128.
"""

from __future__ import annotations

from typing import Literal, overload

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError, UnimplementedError
from proa.tensor.arguments import check_rank, renamed

__all__ = [
    "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "lu",
    "lu_unpack", "pca_lowrank", "qr", "svd",
]  # fmt: skip


def check_matrix(where: str, x: Tensor) -> Tensor:
    """x, if it has two axes at least."""
    if x.ndim < 2:
        raise ShapeError(where, "x must be a matrix or a batch of them", x.shape)
    return x


def check_square(where: str, x: Tensor) -> Tensor:
    """x, if its last two axes are of one size."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(where, "the last two axes of x must be equal", x.shape)
    return x


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    y = ops.swap_last(x)
    return ops.conj(y) if x.dtype.is_complex else y


def as_complex_numbers(x: Tensor) -> Tensor:
    """x in the complex dtype of its width."""
    if x.dtype.is_complex:
        return x
    wide = "complex128" if x.dtype == "float64" else "complex64"
    return ops.cast(x, dtype=as_dtype(wide))


def cholesky(x: Tensor, upper: bool = False, name: str | None = None) -> Tensor:
    """The triangular factor of Hermitian positive definite matrices.

    x = L L^H with L lower triangular, or x = U^H U with U upper triangular.

    Args:
        x: (.., n, n). Only its lower (upper) triangle is read.
        upper: Whether U is wanted.

    Raises:
        InvalidArgumentError: If a matrix is not positive definite.
    """
    check_square("cholesky", x)
    return adjoint(ops.cholesky(adjoint(x))) if upper else ops.cholesky(x)


def lu(
    x: Tensor, pivot: bool = True, get_infos: bool = False, name: str | None = None
) -> tuple[Tensor, ...]:
    """P L U factors with row exchanges.

    Args:
        x: (.., m, n).
        pivot: Must be True: rows are exchanged.
        get_infos: Whether ``info`` is returned too.

    Returns:
        L (below the diagonal, which is 1) and U in one (.., m, n); pivots int32
        (.., min(m, n)): row i was exchanged with row pivots[i], counted from 1; and
        info int32 (..): 0, or the number of the first pivot that is 0.
    """
    if not pivot:
        raise UnimplementedError("[lu] pivot must be True, got False")
    found: tuple[Tensor, ...] = ops.lu(check_matrix("lu", x))
    return found if get_infos else found[:2]


def lu_unpack(
    x: Tensor,
    y: Tensor,
    unpack_ludata: bool = True,
    unpack_pivots: bool = True,
    name: str | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """P, L and U of what `lu` gave; None for those not requested.

    Args:
        x: The factors, (.., m, n).
        y: The pivots, (.., min(m, n)).
        unpack_ludata: Whether L (.., m, k) and U (.., k, n) are wanted, k = min(m, n).
        unpack_pivots: Whether P (.., m, m) is wanted.
    """
    m, n = check_matrix("lu_unpack", x).shape[-2:]
    k = min(m, n)
    places = lower = upper = None
    if unpack_pivots:
        one = ops.eye(rows=m, columns=m, dtype=x.dtype)
        one = ops.broadcast_to(one, shape=[*x.shape[:-2], m, m])
        places = ops.permute_rows(one, y, inverse=True)
    if unpack_ludata:
        own = ops.eye(rows=m, columns=k, dtype=x.dtype)
        left = ops.slice(x, axes=[-1], starts=[0], ends=[k], steps=[1])
        lower = ops.add(ops.triangle(left, upper=False, strict=True), own)
        top = ops.slice(x, axes=[-2], starts=[0], ends=[k], steps=[1])
        upper = ops.triangle(top, upper=True, strict=False)
    return places, lower, upper


@overload
def qr(
    x: Tensor, mode: Literal["reduced", "complete"] = ..., name: str | None = ...
) -> tuple[Tensor, Tensor]: ...
@overload
def qr(x: Tensor, mode: Literal["r"], name: str | None = ...) -> Tensor: ...
@overload
def qr(
    x: Tensor, mode: str, name: str | None = ...
) -> Tensor | tuple[Tensor, Tensor]: ...
def qr(
    x: Tensor, mode: str = "reduced", name: str | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """x = Q R with orthonormal columns in Q and R upper triangular.

    Args:
        x: (.., m, n); k = min(m, n).
        mode: "reduced": Q (.., m, k), R (.., k, n); "complete": Q (.., m, m),
            R (.., m, n), without a gradient; "r": R of "reduced" alone.
    """
    check_matrix("qr", x)
    if mode == "complete":
        both: tuple[Tensor, Tensor] = ops.qr_complete(x)
        return both
    if mode not in ("reduced", "r"):
        raise InvalidArgumentError(
            f"[qr] mode must be 'reduced', 'complete' or 'r', got {mode!r}"
        )
    m, n = x.shape[-2:]
    if m < n:
        # The first m columns settle Q: x = Q [R1, Q^H x2].
        q, r = ops.qr(ops.slice(x, axes=[-1], starts=[0], ends=[m], steps=[1]))
        rest = ops.slice(x, axes=[-1], starts=[m], ends=[n], steps=[1])
        r = ops.concat(r, ops.matmul(adjoint(q), rest), axis=-1)
    else:
        q, r = ops.qr(x)
    return r if mode == "r" else (q, r)


@renamed(full_matrices="full_matrics")
def svd(
    x: Tensor, full_matrices: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Singular values: x = U diag(S) VH.

    Args:
        x: (.., m, n); k = min(m, n).
        full_matrices: Whether U is (.., m, m) and VH (.., n, n), without a gradient.

    Returns:
        U (.., m, k), S (.., k), real and descending, VH (.., k, n).
    """
    row = ops.svd_full if full_matrices else ops.svd
    found: tuple[Tensor, Tensor, Tensor] = row(check_matrix("svd", x))
    return found


def eigh(x: Tensor, UPLO: str = "L", name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices.

    Args:
        x: (.., n, n).
        UPLO: The triangle that is read, "L" or "U".

    Returns:
        Real values (.., n) and vectors (.., n, n) as columns.
    """
    check_square("eigh", x)
    if UPLO not in ("L", "U"):
        raise InvalidArgumentError(f"[eigh] UPLO must be 'L' or 'U', got {UPLO!r}")
    pair: tuple[Tensor, Tensor] = ops.eigh(x if UPLO == "L" else adjoint(x))
    return pair


def eigvalsh(x: Tensor, UPLO: str = "L", name: str | None = None) -> Tensor:
    """The eigenvalues that `eigh` gives."""
    return eigh(x, UPLO)[0]


def eig(x: Tensor, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of any square matrices, always complex.

    Args:
        x: (.., n, n).

    Returns:
        Values (.., n), in no order, and vectors (.., n, n) as columns of length 1.
    """
    check_square("eig", x)
    pair: tuple[Tensor, Tensor] = ops.eig(as_complex_numbers(x))
    return pair


def eigvals(x: Tensor, name: str | None = None) -> Tensor:
    """The eigenvalues that `eig` gives."""
    return eig(x)[0]


def householder_product(x: Tensor, tau: Tensor, name: str | None = None) -> Tensor:
    """The first n columns of H1 H2 .. Hk with Hi = 1 - tau[i] v v^H.

    Args:
        x: (.., m, n), m >= n. Column i holds v below its diagonal, where v is 1.
        tau: (.., k), k <= n.
    """
    m, n = check_matrix("householder_product", x).shape[-2:]
    check_rank("householder_product", "tau", tau, 1)
    k = tau.shape[-1]
    if m < n or k > n:
        raise ShapeError(
            "householder_product", "x must be (.., m, n) and tau (.., k), m >= n >= k",
            (x.shape, tau.shape),
        )  # fmt: skip
    own = ops.eye(rows=m, columns=n, dtype=x.dtype)
    below = ops.add(ops.triangle(x, upper=False, strict=True), own)
    q = own
    for i in reversed(range(k)):
        v = ops.slice(below, axes=[-1], starts=[i], ends=[i + 1], steps=[1])
        t = ops.slice(tau, axes=[-1], starts=[i], ends=[i + 1], steps=[1])
        w = ops.matmul(adjoint(v), q)
        q = ops.sub(q, ops.mul(ops.unsqueeze(t, axis=[-1]), ops.matmul(v, w)))
    return q


def pca_lowrank(
    x: Tensor,
    q: int | None = None,
    center: bool = True,
    niter: int = 2,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The q greatest singular values of x with its column means taken off.

    Computed from the whole decomposition, so it is exact and needs no iteration.

    Args:
        x: (.., m, n).
        q: How many; by default min(6, m, n).
        center: Whether the means are taken off.
        niter: Accepted; nothing is iterated.

    Returns:
        U (.., m, q), S (.., q), V (.., n, q).
    """
    m, n = check_matrix("pca_lowrank", x).shape[-2:]
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        raise InvalidArgumentError(
            f"[pca_lowrank] q must be in [0, {min(m, n)}], got {q}"
        )
    y = ops.sub(x, ops.mean(x, axis=[-2], keepdim=True)) if center else x
    u, s, vh = ops.svd(y)
    first = [
        ops.slice(t, axes=[-1], starts=[0], ends=[count], steps=[1])
        for t in (u, s, adjoint(vh))
    ]
    return first[0], first[1], first[2]
