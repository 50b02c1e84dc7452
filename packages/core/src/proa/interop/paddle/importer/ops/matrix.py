"""Linear algebra, and complex numbers."""

from __future__ import annotations

from typing import Any

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


@paddle_op("inverse", inputs="Input", outputs="Output")
def inverse(call: Call, x: Any) -> Any:
    return proa.inverse(x)


@paddle_op("cholesky")
def cholesky(call: Call, x: Any) -> Any:
    return proa.cholesky(x, call.flag("upper"))


@paddle_op("determinant", inputs="Input")
def determinant(call: Call, x: Any) -> Any:
    return proa.linalg.det(x)


@paddle_op("slogdeterminant", inputs="Input")
def slogdeterminant(call: Call, x: Any) -> Any:
    return proa.linalg.slogdet(x)


@paddle_op("solve", inputs="X Y")
def solve(call: Call, x: Any, y: Any) -> Any:
    return proa.linalg.solve(x, y)


@paddle_op("triangular_solve", inputs="X Y")
def triangular_solve(call: Call, x: Any, y: Any) -> Any:
    return proa.linalg.triangular_solve(
        x, y, call.flag("upper", True), call.flag("transpose"),
        call.flag("unitriangular"),
    )  # fmt: skip


@paddle_op("cholesky_solve", inputs="X Y")
def cholesky_solve(call: Call, x: Any, y: Any) -> Any:
    return proa.linalg.cholesky_solve(x, y, call.flag("upper"))


@paddle_op("matrix_power")
def matrix_power(call: Call, x: Any) -> Any:
    return proa.linalg.matrix_power(x, call.get("n"))


@paddle_op("matrix_rank", inputs="X")
def matrix_rank(call: Call, x: Any) -> Any:
    tol = None if call.flag("use_default_tol", True) else call.get("tol", 0.0)
    return proa.linalg.matrix_rank(x, tol, call.flag("hermitian"))


# -- factorisations --------------------------------------------------------------------
@paddle_op("lu", outputs="Out Pivots Infos")
def lu(call: Call, x: Any) -> Any:
    if not call.flag("pivots", True):
        raise call.refuse("factors without pivots")
    return proa.linalg.lu(x, get_infos=True)


@paddle_op("lu_unpack", inputs="X Pivots", outputs="Pmat L U")
def lu_unpack(call: Call, x: Any, pivots: Any) -> Any:
    return proa.linalg.lu_unpack(
        x, pivots, call.flag("unpack_ludata", True), call.flag("unpack_pivots", True)
    )


@paddle_op("qr", outputs="Q R")
def qr(call: Call, x: Any) -> Any:
    mode = call.get("mode", "reduced")
    return (None, proa.linalg.qr(x, "r")) if mode == "r" else proa.linalg.qr(x, mode)


@paddle_op("svd", outputs="U S VH")
def svd(call: Call, x: Any) -> Any:
    return proa.linalg.svd(x, call.flag("full_matrices"))


@paddle_op("eigh", outputs="Eigenvalues Eigenvectors")
def eigh(call: Call, x: Any) -> Any:
    return proa.linalg.eigh(x, call.get("UPLO", "L"))


@paddle_op("eigvalsh", outputs="Eigenvalues")
def eigvalsh(call: Call, x: Any) -> Any:
    return proa.linalg.eigvalsh(x, call.get("UPLO", "L"))


@paddle_op("eig", outputs="Eigenvalues Eigenvectors")
def eig(call: Call, x: Any) -> Any:
    return proa.linalg.eig(x)


# -- complex numbers -------------------------------------------------------------------
@paddle_op("complex", inputs="X Y")
def complex_(call: Call, x: Any, y: Any) -> Any:
    return proa.complex(x, y)


def _norm(call: Call) -> str:
    return str(call.get("normalization", "backward"))


@paddle_op("fft_c2c")
def fft_c2c(call: Call, x: Any) -> Any:
    axes = [int(a) for a in call.get("axes")]
    which = proa.fft.fftn if call.flag("forward", True) else proa.fft.ifftn
    return which(x, None, axes, _norm(call))


@paddle_op("fft_r2c")
def fft_r2c(call: Call, x: Any) -> Any:
    axes, norm = [int(a) for a in call.get("axes")], _norm(call)
    forward, half = call.flag("forward", True), call.flag("onesided", True)
    if not half:
        return (proa.fft.fftn if forward else proa.fft.ifftn)(x, None, axes, norm)
    return (proa.fft.rfftn if forward else proa.fft.ihfftn)(x, None, axes, norm)


@paddle_op("fft_c2r")
def fft_c2r(call: Call, x: Any) -> Any:
    axes, norm = [int(a) for a in call.get("axes")], _norm(call)
    size = int(call.get("last_dim_size", 0))
    sizes = [*(x.shape[a] for a in axes[:-1]), size] if size else None
    # By an inverse transform of what is Hermitian; forwards of its conjugate.
    which = proa.fft.hfftn if call.flag("forward", False) else proa.fft.irfftn
    return which(x, sizes, axes, norm)
