"""Weights in 8 and 4 bits, and inputs that are rounded as they come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from proa.ir import Builder, Program, Value, to_bytes, verify
from proa.ir.passes import apply, optimize
from proa.runtime import engine_from_bytes

RNG = np.random.default_rng(3)


def run(program: Program, *inputs: Any) -> Any:
    verify(program)
    return engine_from_bytes(to_bytes(program), 1).run(inputs)[0]


def ops_of(program: Program) -> Counter[str]:
    return Counter(node.op for node in program.nodes())


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_weight(b: Builder, depth: int, outs: int, scales: int) -> Value:
    whole = RNG.integers(-127, 128, (depth, outs)).astype(np.int8)
    scale = RNG.uniform(0.01, 0.02, scales).astype(np.float32)
    axis = 1 if scales > 1 else -1
    q = b.constant(whole)
    return b.dequantize(q, b.constant(scale), axis=axis)  # type: ignore[no-any-return]


@pytest.mark.parametrize("scales", [1, 21])
@pytest.mark.parametrize("depth", [40, 128, 300])
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_products_read_the_bytes_of_a_weight(
    scales: int, depth: int, rows: int
) -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, depth))
    w = bytes_weight(b, depth, 21, scales)
    b.output(b.linear(x, w, b.parameter("b", floats(21))))
    plain = b.program.copy()
    assert apply(b.program, ["fuse_weight_only", "remove_dead_code"])
    assert ops_of(b.program) == {"linear_weight_only": 1}
    assert not any(
        v.dtype == "float32" and np.asarray(v.data).size > 21 * 3
        for v in b.program.main.constants()
    )
    values = floats(rows, depth)
    assert run(plain, values).tobytes() == run(b.program, values).tobytes()


def test_half_bytes_as_slim_unpacks_them_are_multiplied_as_they_are() -> None:
    groups, members, outs = 4, 32, 20
    q = RNG.integers(-8, 8, (groups, members, outs))
    scale = RNG.uniform(0.01, 0.1, (groups, 1, outs)).astype(np.float16)
    halves = (q + 8).astype(np.uint8).reshape(2, -1)
    b = Builder()
    x = b.input("x", "float32", (-1, groups * members))
    stored = b.constant(halves[0] | (halves[1] << 4))
    low = b.bitwise_and(stored, b.constant(np.uint8(15)))
    high = b.floor_div(stored, b.constant(np.uint8(16)))
    whole = b.sub(
        b.cast(b.concat(low, high), dtype="float32"), b.constant(np.float32(8))
    )
    steps = b.cast(b.constant(scale), dtype="float32")
    real = b.mul(b.reshape(whole, shape=[groups, members, outs]), steps)
    b.output(b.linear(x, b.reshape(real, shape=[groups * members, outs])))
    plain = b.program.copy()
    optimize(b.program, 2)
    assert ops_of(b.program) == {"linear_weight_only": 1}
    values = floats(9, groups * members)
    got = run(b.program, values)
    assert run(plain, values).tobytes() == got.tobytes()
    want = values.astype(float) @ (q * scale.astype(float)).reshape(-1, outs)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def rounded_product(x: Any, w: Any, scale: Any) -> Any:
    step = np.abs(x).max(axis=-1, keepdims=True) / np.float32(127)
    q = np.clip(np.rint(x / step), -127, 127).astype(np.int64)
    return (q @ w).astype(np.float32) * (scale * step)


def test_linear_layers_round_their_input_a_row_at_a_time() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 7, 48))
    w, bias = floats(48, 30), floats(30)
    b.output(b.linear(x, b.parameter("w", w), b.parameter("b", bias)))
    assert apply(b.program, ["round_linear"])
    assert ops_of(b.program) == {"linear_dynamic": 1}
    scale = np.abs(w).max(axis=0) / np.float32(127)
    whole = np.clip(np.rint(w / scale), -127, 127).astype(np.int64)
    values = floats(2, 7, 48) * np.exp(floats(2, 7, 1))
    want = rounded_product(values, whole, scale) + bias
    got = run(b.program, values)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    exact = values @ w + bias
    assert np.abs(got - exact).max() < 0.02 * np.abs(exact).max()
    # A row has the same bits wherever it is.
    assert run(b.program, values[:1]).tobytes() == got[:1].tobytes()


def test_a_weight_that_is_rounded_already_keeps_its_integers() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 48))
    w = bytes_weight(b, 48, 30, 30)
    b.output(b.linear(x, w))
    whole, scale = (np.asarray(v.data) for v in w.producer.inputs)  # type: ignore[union-attr]
    assert apply(b.program, ["round_linear", "remove_dead_code"])
    values = floats(4, 48)
    want = rounded_product(values, whole.astype(np.int64), scale)
    np.testing.assert_allclose(run(b.program, values), want, rtol=1e-6, atol=1e-6)


def test_small_and_computed_weights_stay_as_they_are() -> None:
    b = Builder()
    x, v = b.input("x", "float32", (-1, 8)), b.input("v", "float32", (8, 64))
    b.output(b.linear(x, b.parameter("w", floats(8, 4))))
    b.output(b.linear(x, v))
    assert not apply(b.program, ["round_linear"])
    assert not apply(b.program, ["fuse_weight_only"])


def dynamically_rounded(b: Builder, x: Value, w: Any, w_scale: Any) -> Value:
    """DynamicQuantizeLinear, MatMulInteger, Cast and Mul, as the importer writes it."""
    zero = b.constant(np.float32(0))
    low = b.minimum(b.min(x), zero)
    high = b.maximum(b.max(x), zero)
    scale = b.div(b.sub(high, low), b.constant(np.float32(255)))
    ratio = b.round(b.div(b.neg(low), scale))
    point = b.cast(b.clip(ratio, min=0, max=255), dtype="uint8")
    moved = b.add(b.round(b.div(x, scale)), b.cast(point, dtype="float32"))
    q = b.cast(b.clip(moved, min=0, max=255), dtype="uint8")
    left = b.sub(b.cast(q, dtype="int32"), b.cast(point, dtype="int32"))
    right = b.cast(b.cast(b.constant(w), dtype="int32"), dtype="float64")
    sums = b.matmul(b.cast(left, dtype="float64"), right)
    whole = b.cast(b.cast(sums, dtype="int32"), dtype="float32")
    return b.mul(whole, b.mul(scale, b.constant(w_scale)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("scales", [1, 25])
def test_onnx_graphs_that_round_as_it_comes_are_one_product(scales: int) -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 6, 40))
    w = RNG.integers(-128, 128, (40, 25)).astype(np.int8)
    w_scale = RNG.uniform(0.01, 0.02, scales).astype(np.float32)
    y = dynamically_rounded(b, x, w, w_scale)
    b.output(b.add(y, b.parameter("bias", floats(25))))
    plain = b.program.copy()
    optimize(b.program, 2)
    assert ops_of(b.program) == {"linear_dynamic": 1}
    values = floats(2, 6, 40) + 1
    got, want = run(b.program, values), run(plain, values)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_a_product_ends_with_a_zero_point() -> None:
    b = Builder()
    x = b.input("x", "int8", (-1, 33))
    w = RNG.integers(-127, 128, (33, 50)).astype(np.int8)
    multiplier = RNG.uniform(0, 1e-3, 50).astype(np.float32)
    product = b.linear_int8(
        x, b.constant(w), b.constant(multiplier), b.constant(floats(50)),
        dtype="float32",
    )  # fmt: skip
    step = b.constant(np.float32(0.021))
    b.output(b.quantize_affine(product, step, zero_point=-37, low=-100))
    plain = b.program.copy()
    assert apply(b.program, ["fuse_integer_epilogue", "remove_dead_code"])
    assert ops_of(b.program) == {"linear_int8": 1}
    values = RNG.integers(-128, 128, (40, 33)).astype(np.int8)
    assert run(plain, values).tobytes() == run(b.program, values).tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_quotients_near_halves_are_rounded_as_divisions(seed: int) -> None:
    """Some scales need one correction, others two."""
    rng = np.random.default_rng(seed)
    columns = 4096
    for scale in rng.uniform(1e-3, 1, 24).astype(np.float32):
        half = (rng.integers(-140, 140, columns) + 0.5).astype(np.float32) * scale
        near = half.view(np.int32) + rng.integers(-3, 4, columns).astype(np.int32)
        values = near.view(np.float32)
        b = Builder()
        x = b.input("x", "int8", (1, 4))
        b.output(
            b.linear_int8(
                x,
                b.constant(np.zeros((4, columns), np.int8)),
                b.constant(np.ones(columns, np.float32)),
                b.constant(values),
                dtype="int8",
                out_scale=float(scale),
            )
        )
        got = run(b.program, np.zeros((1, 4), np.int8))[0]
        want = np.clip(np.rint(values / scale), -127, 127)
        np.testing.assert_array_equal(got, want)
