"""Factorisations of matrices, the last two axes; those before are a batch.

Numbers are computed in double precision whatever the dtype. Gradients follow Giles,
"Collected matrix derivative results" (2008), and Townsend (2016) for the SVD; with
complex numbers they are those of the real function of real and imaginary parts.
"""

from __future__ import annotations

from typing import Any

from proa.schema.row import REFUSED, op

_WIDE = ("float32", "float64", "complex64", "complex128")


def _adjoint(g: Any, x: Any) -> Any:
    return g.conj(g.swap_last(x))


def _hermitian(g: Any, x: Any) -> Any:
    """The Hermitian part."""
    return g.mul(g.add(x, _adjoint(g, x)), 0.5)


def _columns(g: Any, x: Any, factors: Any) -> Any:
    """x times diag(factors)."""
    return g.mul(x, g.unsqueeze(factors, axis=[-2]))


def _inverse_or_zero(g: Any, x: Any) -> Any:
    """1 / x, and 0 where x is 0."""
    zero = g.equal(x, 0.0)
    return g.where(zero, 0.0, g.reciprocal(g.where(zero, 1.0, x)))


def _gaps(g: Any, x: Any) -> Any:
    """[i, j] = x[j] - x[i]."""
    return g.sub(g.unsqueeze(x, axis=[-2]), g.unsqueeze(x, axis=[-1]))


def _cholesky_grad(g: Any, dy: Any, y: Any) -> Any:
    # dA = L^-H phi(L^H dL) L^-1, phi: the lower triangle with half the diagonal. phi(P)
    # is half of the lower and the strictly lower triangle.
    up = _adjoint(g, y)
    p = g.matmul(up, dy)
    phi = g.add(
        g.triangle(p, upper=False, strict=False),
        g.triangle(p, upper=False, strict=True),
    )
    half = g.triangular_solve(up, g.mul(phi, 0.5), upper=True, unit=False)
    whole = g.triangular_solve(up, _adjoint(g, half), upper=True, unit=False)
    return _hermitian(g, whole)


op(
    "cholesky(x)",
    shape="square",
    dtypes=_WIDE,
    grad=_cholesky_grad,
    scratch=True,
    lite=False,
    doc="The lower triangular L with positive diagonal and x = L L^H, from the lower "
    "triangle of x. An error if x is not positive definite.",
)


def _triangular_grad(g: Any, dz: Any, z: Any, x: Any, *, upper: Any, unit: Any) -> Any:
    db = g.triangular_solve(_adjoint(g, x), dz, upper=~upper, unit=unit)
    da = g.neg(g.matmul(db, _adjoint(g, z)))
    return g.triangle(da, upper=upper, strict=unit), db


op(
    "triangular_solve(x, y, *, upper: bool, unit: bool)",
    shape="solve",
    dtypes=_WIDE,
    outputs=("z",),
    grad=_triangular_grad,
    promote="common",
    scratch=True,
    lite=False,
    doc="x^-1 y with the upper or lower triangle of x (.., n, n), its diagonal taken "
    "as ones if unit; y (.., n, k). An error if the diagonal has a zero.",
)
op(
    "triangle(x, *, upper: bool, strict: bool)",
    shape="planes",
    layout="follow",
    dtypes=_WIDE,
    grad=lambda g, dy, *, upper, strict: g.triangle(dy, upper=upper, strict=strict),
    scratch=True,
    lite=False,
    doc="The upper or lower triangle of x, without its diagonal if strict; zeros "
    "elsewhere.",
)


def _solve_grad(g: Any, dz: Any, z: Any, x: Any) -> Any:
    db = g.solve(_adjoint(g, x), dz)
    return g.neg(g.matmul(db, _adjoint(g, z))), db


op(
    "solve(x, y)",
    shape="solve",
    dtypes=_WIDE,
    outputs=("z",),
    grad=_solve_grad,
    promote="common",
    scratch=True,
    lite=False,
    doc="x^-1 y for x (.., n, n) and y (.., n, k). An error if x is singular.",
)
op(
    "inverse(x, *, checked: bool = True)",
    shape="square",
    dtypes=_WIDE,
    grad=lambda g, dy, y: g.neg(g.matmul(_adjoint(g, y), g.matmul(dy, _adjoint(g, y)))),
    scratch=True,
    lite=False,
    doc="x^-1. A singular matrix is an error; if not checked, it gives zeros.",
)


def _scaled(g: Any, x: Any, numbers: Any) -> Any:
    """Each matrix of x times its number."""
    return g.mul(x, g.unsqueeze(numbers, axis=[-2, -1]))


op(
    "det(x)",
    shape="det",
    dtypes=_WIDE,
    grad=lambda g, dy, x: _scaled(g, g.conj(g.cofactor(x)), dy),
    scratch=True,
    lite=False,
    doc="Determinants: (.., n, n) -> (..).",
)
op(
    "cofactor(x)",
    shape="square",
    dtypes=_WIDE,
    grad="composite",
    composite=lambda g, x: _scaled(g, g.swap_last(g.inverse(x)), g.det(x)),
    scratch=True,
    lite=False,
    doc="The matrix of cofactors, the derivative of the determinant: det(x) x^-T where "
    "x has an inverse, and defined where it has none.",
)


def _slogdet_grad(g: Any, dsign: Any, dlogdet: Any, sign: Any, x: Any) -> Any:
    # The phase t of a complex sign e^(i t) is the imaginary part of tr(x^-1 dx).
    phase = g.mul(g.conj(sign), dsign)
    phase = g.mul(g.sub(phase, g.conj(phase)), 0.5)
    both = g.add(phase, dlogdet)
    return _scaled(g, _adjoint(g, g.inverse(x)), both)


op(
    "slogdet(x)",
    shape="det",
    dtypes=_WIDE,
    outputs=("sign", "logdet"),
    out=("same", "real"),
    grad=_slogdet_grad,
    scratch=True,
    lite=False,
    doc="Sign (of modulus 1 if complex; 0 if singular) of the determinant and the "
    "logarithm of its modulus.",
)


def _lu_grad(g: Any, dy: Any, y: Any, pivots: Any) -> Any:
    # x = P L U: dx = P L^-H (tril(L^H dL, strictly) + triu(dU U^H)) U^-H.
    down = g.triangle(y, upper=False, strict=True)
    over = g.triangle(y, upper=True, strict=False)
    d_down = g.triangle(dy, upper=False, strict=True)
    d_over = g.triangle(dy, upper=True, strict=False)
    # L^H dL with L = 1 + down.
    left = g.add(d_down, g.matmul(_adjoint(g, down), d_down))
    middle = g.add(
        g.triangle(left, upper=False, strict=True),
        g.triangle(g.matmul(d_over, _adjoint(g, over)), upper=True, strict=False),
    )
    half = g.triangular_solve(_adjoint(g, y), middle, upper=True, unit=True)
    # half U^-H = (U^-1 half^H)^H
    whole = g.triangular_solve(y, _adjoint(g, half), upper=True, unit=False)
    return g.permute_rows(_adjoint(g, whole), pivots, inverse=True)


op(
    "lu(x)",
    shape="lu",
    dtypes=_WIDE,
    outputs=("y", "pivots", "info"),
    out=("same", "int32", "int32"),
    grad=_lu_grad,
    scratch=True,
    lite=False,
    doc="x = P L U with the unit lower triangle L and the upper triangle U both in y; "
    "row i was exchanged with row pivots[i], counted from 1; info is 0 or the number "
    "of the first pivot that is 0. The gradient is for square x.",
)
op(
    "permute_rows(x, pivots, *, inverse: bool = False)",
    shape="permute_rows",
    dtypes=_WIDE,
    grad=lambda g, dy, pivots, *, inverse: (
        g.permute_rows(dy, pivots, inverse=~inverse),
        None,
    ),
    scratch=True,
    lite=False,
    doc="The row exchanges of lu applied to x, or undone.",
)


def _qr_grad(g: Any, dq: Any, dr: Any, q: Any, r: Any) -> Any:
    # With m = R dR^H - dQ^H Q, made Hermitian from its lower triangle:
    # dx = (dQ + Q herm(m)) R^-H.
    m = g.sub(g.matmul(r, _adjoint(g, dr)), g.matmul(_adjoint(g, dq), q))
    down = g.triangle(m, upper=False, strict=True)
    diagonal = g.sub(g.triangle(m, upper=False, strict=False), down)
    whole = g.add(g.add(down, _adjoint(g, down)), _hermitian(g, diagonal))
    right = g.add(dq, g.matmul(q, whole))
    return _adjoint(
        g, g.triangular_solve(r, _adjoint(g, right), upper=True, unit=False)
    )


op(
    "qr(x)",
    shape="qr",
    dtypes=_WIDE,
    outputs=("q", "r"),
    grad=_qr_grad,
    scratch=True,
    lite=False,
    doc="x = q r, q (.., m, k) with orthonormal columns, r (.., k, n) an upper "
    "triangle, k = min(m, n). The gradient is for m >= n and full rank.",
)
op(
    "qr_complete(x)",
    shape="qr_complete",
    dtypes=_WIDE,
    outputs=("q", "r"),
    grad=REFUSED,
    scratch=True,
    lite=False,
    doc="x = q r with q (.., m, m) and r (.., m, n).",
)


def _eigh_grad(g: Any, dw: Any, dv: Any, w: Any, v: Any) -> Any:
    # V (diag(dw) + (V^H dV) / gaps) V^H.
    inner = g.mul(g.matmul(_adjoint(g, v), dv), _inverse_or_zero(g, _gaps(g, w)))
    left = g.add(_columns(g, v, dw), g.matmul(v, inner))
    return _hermitian(g, g.matmul(left, _adjoint(g, v)))


op(
    "eigh(x)",
    shape="eig",
    dtypes=_WIDE,
    outputs=("w", "v"),
    out=("real", "same"),
    grad=_eigh_grad,
    scratch=True,
    lite=False,
    doc="Eigenvalues, ascending, and orthonormal eigenvectors (columns) of a Hermitian "
    "matrix, from its lower triangle.",
)


def _eig_grad(g: Any, dw: Any, dv: Any, w: Any, v: Any) -> Any:
    # V^-H (diag(dw) + (V^H dV - V^H V diag(Re diag(V^H dV))) / conj(gaps)) V^H: vectors
    # have length 1 and any phase.
    up = _adjoint(g, v)
    p = g.matmul(up, dv)
    own = g.real(g.diagonal(p, axis1=-2, axis2=-1))
    off = g.sub(p, _columns(g, g.matmul(up, v), own))
    off = g.mul(off, _inverse_or_zero(g, g.conj(_gaps(g, w))))
    # diag(dw) V^H has the rows of V^H times dw.
    right = g.add(g.mul(up, g.unsqueeze(dw, axis=[-1])), g.matmul(off, up))
    return g.solve(up, right)


op(
    "eig(x)",
    shape="eig",
    dtypes=("complex64", "complex128"),
    outputs=("w", "v"),
    grad=_eig_grad,
    scratch=True,
    lite=False,
    doc="Eigenvalues and eigenvectors (columns, of length 1) of any square matrix.",
)


def _svd_grad(g: Any, du: Any, ds: Any, dvh: Any, u: Any, s: Any, vh: Any) -> Any:
    # dx = U (F * (skew(U^H dU) S + S skew(V^H dV)) + diag(ds)) V^H
    #      + (1 - U U^H) dU S^-1 V^H + U S^-1 dV^H (1 - V V^H),
    # F[i, j] = 1 / (s[j]^2 - s[i]^2). If complex, the diagonal of skew(U^H dU) / (2 s)
    # is the phase that U and V share.
    up, v = _adjoint(g, u), _adjoint(g, vh)
    over = _inverse_or_zero(g, s)
    pu = g.matmul(up, du)
    pv = g.matmul(vh, _adjoint(g, dvh))
    skew_u, skew_v = g.sub(pu, _adjoint(g, pu)), g.sub(pv, _adjoint(g, pv))
    factor = _inverse_or_zero(g, _gaps(g, g.mul(s, s)))
    inner = g.add(_columns(g, skew_u, s), g.mul(skew_v, g.unsqueeze(s, axis=[-1])))
    inner = g.mul(inner, factor)
    phase = g.mul(g.diagonal(skew_u, axis1=-2, axis2=-1), g.mul(over, 0.5))
    left = g.add(g.matmul(u, inner), _columns(g, u, g.add(phase, ds)))
    left = g.add(left, _columns(g, g.sub(du, g.matmul(u, pu)), over))
    outside = g.sub(dvh, g.matmul(g.matmul(dvh, v), vh))
    return g.add(g.matmul(left, vh), g.matmul(_columns(g, u, over), outside))


op(
    "svd(x)",
    shape="svd",
    dtypes=_WIDE,
    outputs=("u", "s", "vh"),
    out=("same", "real", "same"),
    grad=_svd_grad,
    scratch=True,
    lite=False,
    doc="x = u diag(s) vh with s descending, u (.., m, k), vh (.., k, n); k = "
    "min(m, n).",
)
op(
    "svd_full(x)",
    shape="svd_full",
    dtypes=_WIDE,
    outputs=("u", "s", "vh"),
    out=("same", "real", "same"),
    grad=REFUSED,
    scratch=True,
    lite=False,
    doc="`svd` with square u (.., m, m) and vh (.., n, n).",
)
