"""Linear algebra: norms, products, factorisations, systems, covariances."""

from proa.base.public import publish as _publish
from proa.tensor.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lu,
    lu_unpack,
    pca_lowrank,
    qr,
    svd,
)
from proa.tensor.linalg import cond, corrcoef, cov, norm
from proa.tensor.linear_solvers import (
    cholesky_solve,
    det,
    inv,
    lstsq,
    matrix_power,
    matrix_rank,
    multi_dot,
    pinv,
    slogdet,
    solve,
    triangular_solve,
)

__all__ = [
    "cholesky",
    "cholesky_solve",
    "cond",
    "corrcoef",
    "cov",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "lstsq",
    "lu",
    "lu_unpack",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pca_lowrank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "triangular_solve",
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
