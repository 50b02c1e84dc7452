"""Rows of linear algebra, and of complex numbers."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import Longs


@export_row("cholesky")
def cholesky(c: Call, x: Ref) -> Ref:
    return c.unary("cholesky", x, upper=False)


@export_row("det")
def det(c: Call, x: Ref) -> Ref:
    return c.op("determinant", {"Input": x}, c.outputs[0].shape)


@export_row("slogdet")
def slogdet(c: Call, x: Ref) -> list[Ref]:
    shape = c.outputs[0].shape
    both = c.op("slogdeterminant", {"Input": x}, [2, *shape])
    return [
        c.op(
            "slice", {"Input": both}, shape, axes=[0], starts=[i], ends=[i + 1],
            infer_flags=[1], decrease_axis=[0],
        ) for i in range(2)
    ]  # fmt: skip


@export_row("inverse")
def inverse(c: Call, x: Ref, *, checked: bool) -> Ref:
    return c.op("inverse", {"Input": x}, x.shape, out="Output")


@export_row("lu")
def lu(c: Call, x: Ref) -> list[Ref]:
    slots = zip(("Out", "Pivots", "Infos"), c.outputs, strict=True)
    outputs = {slot: (value.dtype, value.shape) for slot, value in slots}
    return c.ops("lu", {"X": x}, outputs, pivots=True)


@export_row("permute_rows")
def permute_rows(c: Call, x: Ref, pivots: Ref, *, inverse: bool) -> Ref:
    """x times the matrix of the exchanges, or its transpose."""
    assert x.shape is not None
    sizes = [c.size(x, i) for i in range(x.rank - 1)]
    rows = x.shape[-2]
    like = c.filled([*sizes, c.size(pivots, -1)], 0.0, x.dtype)
    square = [*x.shape[:-1], rows]
    outputs = dict.fromkeys(("Pmat", "L", "U"), (x.dtype, square))
    given = {"X": like, "Pivots": pivots}
    places = c.ops(
        "lu_unpack", given, outputs, unpack_ludata=False, unpack_pivots=True
    )[0]
    return c.op(
        "matmul_v2", {"X": places, "Y": x}, x.shape, trans_x=not inverse,
        trans_y=False,
    )  # fmt: skip


@export_row("qr", "qr_complete")
def qr(c: Call, x: Ref) -> list[Ref]:
    outputs = {s: (x.dtype, v.shape) for s, v in zip("QR", c.outputs, strict=True)}
    mode = "reduced" if c.name == "qr" else "complete"
    return c.ops("qr", {"X": x}, outputs, mode=mode)


@export_row("svd", "svd_full")
def svd(c: Call, x: Ref) -> list[Ref]:
    slots = zip(("U", "S", "VH"), c.outputs, strict=True)
    outputs = {slot: (value.dtype, value.shape) for slot, value in slots}
    return c.ops("svd", {"X": x}, outputs, full_matrices=c.name == "svd_full")


@export_row("eigh", "eig")
def eigen(c: Call, x: Ref) -> list[Ref]:
    slots = zip(("Eigenvalues", "Eigenvectors"), c.outputs, strict=True)
    outputs = {slot: (value.dtype, value.shape) for slot, value in slots}
    attrs = {"UPLO": "L"} if c.name == "eigh" else {}
    return c.ops(c.name, {"X": x}, outputs, **attrs)


@export_row("solve")
def solve(c: Call, x: Ref, y: Ref) -> Ref:
    return c.op("solve", {"X": x, "Y": y}, c.outputs[0].shape)


@export_row("triangular_solve")
def triangular_solve(c: Call, x: Ref, y: Ref, *, upper: bool, unit: bool) -> Ref:
    return c.op(
        "triangular_solve", {"X": x, "Y": y}, c.outputs[0].shape, upper=bool(upper),
        transpose=False, unitriangular=bool(unit),
    )  # fmt: skip


@export_row("triangle")
def triangle(c: Call, x: Ref, *, upper: bool, strict: bool) -> Ref:
    diagonal = (1 if upper else -1) * int(strict)
    return c.unary("tril_triu", x, diagonal=diagonal, lower=not upper)


# -- complex numbers -------------------------------------------------------------------
@export_row("conj")
def conj(c: Call, x: Ref) -> Ref:
    return c.unary("conj", x) if x.dtype.startswith("complex") else x


@export_row("real", "imag")
def real(c: Call, x: Ref) -> Ref:
    return c.unary(c.name, x, dtype=c.outputs[0].dtype)


@export_row("make_complex")
def make_complex(c: Call, x: Ref, y: Ref) -> Ref:
    return c.binary("complex", x, y, dtype=c.outputs[0].dtype)


@export_row("fft")
def fft(c: Call, x: Ref, *, axis: int, inverse: bool, norm: str) -> Ref:
    # Paddle names the direction whose result is divided by the length.
    divides = {"none": inverse, "mean": not inverse}.get(norm, False)
    mode = "ortho" if norm == "ortho" else "forward" if divides else "backward"
    return c.unary(
        "fft_c2c", x, axes=Longs([axis % x.rank]), normalization=mode,
        forward=not inverse,
    )  # fmt: skip
