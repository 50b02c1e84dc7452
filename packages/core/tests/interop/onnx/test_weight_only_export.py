"""Products with weights of 4 and 8 bits are written with the floats of the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proa.ir import Builder

from ...ops.samples.quant import _linear_weight_only

pytest.importorskip("onnx")
from proa.interop.onnx.exporter.export import export_program

from .exported import run_model


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [True, False])
def test_constant_weights_of_few_bits_are_written(
    bits: int, zeros: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(bits)
    x = rng.standard_normal((3, 40)).astype(np.float32)
    w = rng.integers(0, 256, (7, 3 * 16 * bits // 8)).astype(np.uint8)
    scale = rng.uniform(1e-3, 1e-2, (7, 3)).astype(np.float32)
    zero = rng.integers(0, 2**bits, (7, 3)).astype(np.uint8) if zeros else None
    bias = rng.standard_normal(7).astype(np.float32)
    b = Builder()
    points = None if zero is None else b.parameter("zero", zero)
    y = b.linear_weight_only(
        b.input("x", "float32", [-1, 40]), b.parameter("w", w),
        b.parameter("scale", scale), points, b.parameter("bias", bias),
        bits=bits, group=16, act="relu",
    )  # fmt: skip
    b.output(y)
    export_program(b.program, tmp_path / "m.onnx", 17)
    want = _linear_weight_only(x, w, scale, zero, bias, bits=bits, group=16, act="relu")
    (got,) = run_model(tmp_path / "m.onnx", [x])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
