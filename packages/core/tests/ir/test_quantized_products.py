"""Products of two rounded activations, as ONNX files have them, become integers."""

from __future__ import annotations

import numpy as np
import pytest

from proa.ir import Builder, Value
from proa.ir.passes import PIPELINE, apply

from .rounded_programs import RNG, both, ops_of, run, same_before_and_after


@pytest.mark.feature("L546", how="mechanism")
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("over", [False, True])
def test_a_product_of_two_activations_and_its_scale(kind: str, over: bool) -> None:
    b = Builder()
    x, y = (
        b.input("x", "float32", (2, 3, -1, 16)),
        b.input("y", "float32", (2, 3, 9, 16)),
    )
    zeros = (100, 140, 90) if kind == "uint8" else (-5, 30, -40)
    a, c = both(b, x, 0.03, zeros[0], kind), both(b, y, 0.05, zeros[1], kind)
    z = b.matmul(a, b.transpose(c, perm=(0, 1, 3, 2)))
    factor = b.constant(np.float32(4.0 if over else 0.25))
    z = b.div(z, factor) if over else b.mul(z, factor)
    b.output(both(b, z, 0.07, zeros[2], kind))
    inputs = [RNG.standard_normal((2, 3, n, 16)).astype(np.float32) for n in (7, 9)]
    program = same_before_and_after(b.program, *inputs, atol=0.071)
    found = ops_of(program)
    assert found["matmul_int8"] == 1 and found["quantize_affine"] == 2
    assert found["matmul"] == found["div"] == found["round"] == 0
    dtypes = {n.op: n.inputs[0].dtype for n in program.nodes() if n.inputs[0]}
    assert dtypes["transpose"] == "int8"  # a view of it, without a copy


def decomposed(b: Builder, mask: Value | None, weight_scale: float) -> None:
    """Attention as ONNX files have it after rounding every operand of a product."""
    q, k, v = (b.input(n, "float32", (2, 4, 10, 8)) for n in "qkv")
    a, c, e = (
        both(b, x, s, z, "uint8")
        for x, s, z in ((q, 0.02, 128), (k, 0.03, 120), (v, 0.025, 128))
    )
    scores = b.matmul(a, b.transpose(c, perm=(0, 1, 3, 2)))
    scores = b.div(scores, b.constant(np.float32(8**0.5)))
    if mask is not None:
        scores = b.add(scores, mask)
    weights = both(b, b.softmax(scores, axis=-1), weight_scale, 0, "uint8")
    b.output(both(b, b.matmul(weights, e), 0.02, 130, "uint8"))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weight_scale", [1 / 255, 0.0031])
def test_attention_of_integers_is_one_operator(
    masked: bool, weight_scale: float
) -> None:
    b = Builder()
    mask = b.input("mask", "float32", (2, 1, 1, 10)) if masked else None
    decomposed(b, mask, weight_scale)
    inputs = [RNG.standard_normal((2, 4, 10, 8)).astype(np.float32) for _ in range(3)]
    if masked:
        drawn = RNG.uniform(-3, 0, (2, 1, 1, 10)).astype(np.float32)
        inputs.insert(0, drawn)
    program = same_before_and_after(b.program, *inputs, atol=0.0201)
    found = ops_of(program)
    assert found["attention_int8"] == 1
    assert found["matmul_int8"] == found["softmax"] == found["matmul"] == 0


def test_the_operator_has_the_bits_of_its_steps() -> None:
    b = Builder()
    decomposed(b, None, 1 / 255)
    fused = b.program.copy()
    passes = [p.name for p in PIPELINE if p.level <= 2]
    apply(b.program, [p for p in passes if p != "fuse_integer_attention"])
    apply(fused, passes)
    assert ops_of(b.program)["matmul_int8"] == 2
    assert ops_of(fused)["attention_int8"] == 1
    inputs = [RNG.standard_normal((2, 4, 10, 8)).astype(np.float32) for _ in range(3)]
    np.testing.assert_array_equal(run(fused, *inputs)[0], run(b.program, *inputs)[0])
