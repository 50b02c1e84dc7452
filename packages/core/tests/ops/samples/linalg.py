"""Factorisations. Factors that are not unique are checked by what they multiply to."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ..sample import Array, Sample, case

TOLERANCE = {"float32": 2e-4, "complex64": 5e-4}


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def positive(*shape: int) -> Any:
    """Draws positive definite matrices."""

    def drawn(rng: np.random.Generator) -> Array:
        m = rng.normal(size=shape)
        return np.asarray(m @ adjoint(m) + shape[-1] * np.eye(shape[-1]))

    return drawn


def steady(*shape: int) -> Any:
    """Draws matrices far from singular."""

    def drawn(rng: np.random.Generator) -> Array:
        return np.asarray(rng.uniform(-1, 1, shape) + 2 * np.eye(*shape[-2:]))

    return drawn


def is_product(inputs: Any, parts: list[Array], total: Array) -> None:
    loose = inputs[0].dtype.itemsize <= 4 or inputs[0].dtype == np.complex64
    np.testing.assert_allclose(total, inputs[0], atol=2e-4 if loose else 1e-9)
    for part in parts:  # orthonormal columns
        eye = np.broadcast_to(
            np.eye(part.shape[-1]), (*part.shape[:-2], *[part.shape[-1]] * 2)
        )
        np.testing.assert_allclose(
            adjoint(part) @ part, eye, atol=2e-4 if loose else 1e-9
        )


def triangular(x: Array, *, upper: bool, unit: bool) -> Array:
    y = np.triu(x) if upper else np.tril(x)
    if unit:
        own = np.eye(x.shape[-1])
        y = y * (1 - own) + own
    return np.asarray(y)


Sample(
    "cholesky",
    ref=lambda x: np.linalg.cholesky(np.tril(x) + adjoint(np.tril(x, -1))),
    cases=[case(positive(3, 3)), case(positive(2, 1, 4, 4)), case(positive(0, 2, 2))],
    dtypes=("float32", "float64"),
    rtol=TOLERANCE,
    grad=False,  # of a symmetric matrix: see tests/linalg
)
Sample(
    "triangular_solve",
    ref=lambda x, y, *, upper, unit: np.linalg.solve(
        triangular(x, upper=upper, unit=unit), y
    ),
    cases=[
        case(steady(2, 3, 3), (2, 3, 2), upper=True, unit=False),
        case(steady(2, 3, 3), (3, 1), upper=False, unit=True),
        case(steady(1, 3, 3), (2, 3, 2), upper=False, unit=False),
        case(steady(2, 3, 3), (2, 3, 2), upper=True, unit=True),
    ],
    dtypes=("float32", "float64"),
    rtol=TOLERANCE,
)
Sample(
    "triangle",
    ref=lambda x, *, upper, strict: (
        np.triu(x, int(strict)) if upper else np.tril(x, -int(strict))
    ),
    cases=[
        case((2, 3, 3), upper=u, strict=s) for u in (False, True) for s in (False, True)
    ]
    + [case((2, 4), upper=True, strict=False), case((0, 4), upper=True, strict=False)],
)
Sample(
    "solve",
    ref=lambda x, y: np.linalg.solve(x, y),
    cases=[
        case((2, 3, 3), (2, 3, 2)),
        case((2, 1, 4, 4), (3, 4, 1)),
        case((0, 2, 2), (2, 3)),
        case((2, 0, 0), (2, 0, 3)),
    ],
    rtol=TOLERANCE,
    atol=TOLERANCE,
)
Sample(
    "inverse",
    ref=lambda x, *, checked=True: np.linalg.inv(x),
    cases=[case((1, 3, 3)), case((2, 3, 4, 4)), case((2, 1, 1)), case((0, 2, 2))],
    rtol=TOLERANCE,
    atol=TOLERANCE,
)
Sample(
    "det",
    ref=np.linalg.det,
    cases=[case((3, 3)), case((2, 2, 4, 4)), case((2, 1, 1)), case((0, 2, 2))],
    rtol=TOLERANCE,
    atol=TOLERANCE,
    repeats=False,
)
Sample(
    "slogdet",
    ref=lambda x: tuple(np.linalg.slogdet(x)),
    cases=[case((3, 3)), case((2, 4, 4)), case((0, 2, 2))],
    rtol=TOLERANCE,
    atol=TOLERANCE,
    repeats=False,
)
Sample(
    "cofactor",
    ref=lambda x: (
        np.linalg.det(x)[..., None, None] * np.swapaxes(np.linalg.inv(x), -1, -2)
    ),
    cases=[case((1, 3, 3)), case((2, 4, 4)), case((2, 1, 1))],
    rtol=TOLERANCE,
    atol={"float32": 1e-3, "complex64": 2e-3},
)


def lu(x: Array) -> tuple[Array, Array, Array]:
    flat = x.reshape(-1, *x.shape[-2:])
    count = min(x.shape[-2:])
    y = np.empty_like(flat)
    pivots = np.empty((len(flat), count), np.int32)
    for i, m in enumerate(flat):
        y[i], found = scipy.linalg.lu_factor(m)
        pivots[i] = found[:count] + 1
    batch = x.shape[:-2]
    return y.reshape(x.shape), pivots.reshape(*batch, count), np.zeros(batch, np.int32)


Sample(
    "lu",
    ref=lu,
    cases=[case((1, 3, 3)), case((2, 4, 4)), case((2, 4, 3)), case((1, 3, 5))],
    grad_cases=[case((3, 3)), case((2, 4, 4))],
    rtol=TOLERANCE,
    atol=TOLERANCE,
    repeats=False,
)


def permuted(x: Array, pivots: Array, *, inverse: bool = False) -> Array:
    y = x.copy()
    order = range(pivots.shape[-1])
    for batch in np.ndindex(*x.shape[:-2]):
        for i in reversed(order) if inverse else order:
            j = pivots[(*batch, i)] - 1
            y[(*batch, [i, j])] = y[(*batch, [j, i])]
    return y


PIVOTS = np.array([[2, 3, 3], [3, 2, 4]], np.int32)
Sample(
    "permute_rows",
    ref=permuted,
    cases=[case((2, 4, 3), PIVOTS), case((2, 4, 3), PIVOTS, inverse=True)],
)
Sample(
    "qr",
    ref=lambda x: tuple(np.linalg.qr(x)),
    cases=[case((3, 3)), case((2, 5, 3)), case((2, 2, 2)), case((4, 1))],
    rtol=TOLERANCE,
    atol=TOLERANCE,
    repeats=False,
)
Sample(
    "qr_complete",
    check=lambda inputs, attrs, out: is_product(inputs, [out[0]], out[0] @ out[1]),
    cases=[case((3, 3)), case((2, 5, 3)), case((2, 2, 4)), case((4, 0))],
)
Sample(
    "eigh",
    check=lambda inputs, attrs, out: is_product(
        [np.tril(inputs[0], -1) + adjoint(np.tril(inputs[0]))],
        [out[1]],
        out[1] * out[0][..., None, :] @ adjoint(out[1]),
    ),
    cases=[case((3, 3)), case((2, 6, 6)), case((1, 1)), case((0, 2, 2))],
    dtypes=("float32", "float64"),
    grad=False,  # of a symmetric matrix: see tests/linalg
)
Sample(
    "eig",
    check=lambda inputs, attrs, out: np.testing.assert_allclose(
        inputs[0] @ out[1],
        out[1] * out[0][..., None, :],
        atol=1e-3 if inputs[0].dtype == np.complex64 else 1e-9,
    ),
    cases=[case((3, 3)), case((2, 6, 6)), case((1, 1)), case((0, 2, 2))],
)
Sample(
    "svd",
    check=lambda inputs, attrs, out: is_product(
        inputs, [out[0], adjoint(out[2])], out[0] * out[1][..., None, :] @ out[2]
    ),
    cases=[case((3, 3)), case((2, 5, 3)), case((2, 3, 6)), case((4, 1))],
)
Sample(
    "svd_full",
    check=lambda inputs, attrs, out: is_product(
        inputs,
        [out[0], adjoint(out[2])],
        out[0][..., : out[1].shape[-1]]
        * out[1][..., None, :]
        @ out[2][..., : out[1].shape[-1], :],
    ),
    cases=[case((3, 3)), case((2, 5, 3)), case((2, 3, 6)), case((4, 0))],
)
