"""Discrete Fourier transforms; `proa.fft` makes all others of this one."""

from __future__ import annotations

from proa.schema.row import op

op(
    "fft(x, *, axis: int = -1, inverse: bool = False, "
    'norm: "none"|"ortho"|"mean" = "none")',
    shape="along_axis",
    layout="follow",
    dtypes=("complex64", "complex128"),
    grad=lambda g, dy, *, axis, inverse, norm: g.fft(
        dy, axis=axis, inverse=~inverse, norm=norm
    ),
    scratch=True,
    lite=False,
    doc="y[k] = sum over j of x[j] exp(-2 pi i j k / n) along axis, +2 pi i if "
    "inverse; times 1 / sqrt(n) (ortho) or 1 / n (mean). n may be any number.",
)
