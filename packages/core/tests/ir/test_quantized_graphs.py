"""Graphs that round and scale back, as ONNX files spell it, become integers."""

from __future__ import annotations

import numpy as np
import pytest

from proa.ir import Builder
from proa.ir.passes import apply, optimize

from .rounded_programs import (
    RNG,
    both,
    ops_of,
    real,
    rounded,
    run,
    same_before_and_after,
    weight,
)


@pytest.mark.parametrize("zero", [0, -11])
def test_a_convolution_whose_scale_comes_after_it(zero: int) -> None:
    # as Paddle freezes weights of one scale
    b = Builder()
    x = b.input("x", "float32", (-1, 3, 9, 8))
    q = rounded(b, x, 0.03, zero, "int8")
    image = b.cast(b.sub(b.cast(q, dtype="int32"), b.constant(np.int32(zero))),
                   dtype="float32")  # fmt: skip
    w = RNG.integers(-127, 128, (6, 3, 3, 3)).astype(np.float32)
    product = b.conv2d(image, b.parameter("w", w), padding=[1, 1, 1, 1])
    scaled = b.mul(product, b.constant(np.float32(2e-4)))
    bias = RNG.standard_normal((1, 6, 1, 1)).astype(np.float32)
    b.output(b.relu(b.add(scaled, b.parameter("b", bias))))
    images = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32) * 2
    program = same_before_and_after(b.program, images, atol=1e-4)
    assert ops_of(program)["conv2d_int8"] == 1 and "relu" not in ops_of(program)


@pytest.mark.feature("L547")
@pytest.mark.parametrize(
    ("kind", "zero"), [("uint8", 128), ("uint8", 0), ("uint8", 77), ("int8", -11)]
)
@pytest.mark.parametrize("padding", [[0, 0, 0, 0], [1, 0, 2, 1]])
def test_a_convolution_of_shifted_integers(
    kind: str, zero: int, padding: list[int]
) -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 3, 9, 8))
    w, bias = weight(6, 3, 3, 3), RNG.standard_normal(6).astype(np.float32)
    product = b.conv2d(
        both(b, x, 0.03, zero, kind), b.parameter("w", w), b.parameter("b", bias),
        padding=padding, stride=[1, 2],
    )  # fmt: skip
    b.output(b.relu(product))
    images = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32) * 2
    program = same_before_and_after(b.program, images, atol=1e-4)
    found = ops_of(program)
    shifted = zero != (128 if kind == "uint8" else 0)
    assert found["conv2d_int8"] == found["quantize_affine"] == 1
    assert found["pad"] == (1 if shifted and any(padding) else 0)
    assert sum(found.values()) == 2 + found["pad"]  # the activation is part of it


@pytest.mark.feature("L547")
def test_the_integers_are_those_of_the_formula() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1,))
    b.output(both(b, x, 0.25, 30, "uint8"), both(b, b.relu(x), 0.25, 200, "uint8"))
    program = b.program
    x_values = np.float32([-100, -8, -7.4, -0.125, 0, 0.125, 0.375, 3.14, 60, 1e9])
    plain = run(program, x_values)
    optimize(program, 2)
    assert ops_of(program)["quantize_affine"] == 2
    assert ops_of(program)["round"] == ops_of(program)["relu"] == 0
    for got, want in zip(run(program, x_values), plain, strict=True):
        np.testing.assert_array_equal(got, want)
    want = (np.clip(np.rint(x_values / 0.25) + 30, 0, 255) - 30) * 0.25
    np.testing.assert_array_equal(plain[0], want.astype(np.float32))


@pytest.mark.feature("L548")
@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("relu", [False, True])
def test_a_sum_and_a_product_of_integers(op: str, kind: str, relu: bool) -> None:
    b = Builder()
    x, y = (b.input(name, "float32", (-1, 40)) for name in "xy")
    zeros = (100, 140, 90) if kind == "uint8" else (-5, 30, -40)
    z = getattr(b, op)(
        both(b, x, 0.03, zeros[0], kind), both(b, y, 0.05, zeros[1], kind)
    )
    b.output(both(b, b.relu(z) if relu else z, 0.07, zeros[2], kind))
    inputs = [RNG.standard_normal((5, 40)).astype(np.float32) * 2 for _ in range(2)]
    program = same_before_and_after(b.program, *inputs, atol=0)
    found = ops_of(program)
    assert found[f"{op}_int8"] == 1
    assert found["quantize_affine"] == 2
    assert found["relu"] == found["round"] == 0


def test_a_residual_block_runs_in_integers() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 8, 6, 6))
    start = both(b, x, 0.02, 128, "uint8")
    a = b.conv2d(start, b.parameter("w1", weight(8, 8, 3, 3)), padding=[1] * 4)
    a = both(b, b.relu(a), 0.04, 0, "uint8")
    a = b.conv2d(a, b.parameter("w2", weight(8, 8, 1, 1)))
    joined = both(
        b, b.relu(b.add(both(b, a, 0.05, 120, "uint8"), start)), 0.06, 0, "uint8"
    )
    rows = b.flatten(joined, start_axis=1)
    y = b.matmul(both(b, rows, 0.06, 0, "uint8"), b.constant(weight(288, 5, axis=1)))
    b.output(b.add(y, b.constant(np.float32([1, 2, 3, 4, 5]))))
    images = RNG.standard_normal((3, 8, 6, 6)).astype(np.float32)
    program = same_before_and_after(b.program, images, atol=1e-3)
    found = ops_of(program)
    assert found["conv2d_int8"] == 2
    assert found["add_int8"] == found["linear_int8"] == 1
    assert found["conv2d"] == found["linear"] == found["matmul"] == 0


def test_what_is_not_whole_or_not_constant_stays_in_floats() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 6))
    drawn = RNG.standard_normal((6, 4)).astype(np.float32)
    b.output(b.matmul(both(b, x, 0.02, 128, "uint8"), b.constant(drawn)))
    program = same_before_and_after(
        b.program, RNG.standard_normal((3, 6)).astype(np.float32), atol=1e-5
    )
    assert ops_of(program)["linear_int8"] == 0
    b = Builder()
    x, w = b.input("x", "float32", (-1, 6)), b.input("w", "float32", (6, 4))
    b.output(b.linear(both(b, x, 0.02, 128, "uint8"), w))
    optimize(b.program, 2)
    assert ops_of(b.program)["linear"] == 1


def test_integers_that_are_an_output_stay_as_they_are() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 6))
    q = rounded(b, x, 0.1, 128, "uint8")
    b.output(q, real(b, q, 0.1, 128))
    values = RNG.standard_normal((3, 6)).astype(np.float32)
    program = same_before_and_after(b.program, values, atol=0)
    assert program.main.outputs[0].dtype == "uint8"


@pytest.mark.feature("L550")
@pytest.mark.feature("L534", how="mechanism")
@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh"])
def test_states_of_recurrent_cells_are_multiplied_as_integers(cell: str) -> None:
    hidden, gates = 24, {"lstm": 4, "gru": 3, "tanh": 1}[cell]
    b = Builder()
    xg = b.input("xg", "float32", (-1, -1, gates * hidden))
    h0 = b.input("h0", "float32", (-1, hidden))
    w = RNG.standard_normal((gates * hidden, hidden)).astype(np.float32) / 5
    c0 = b.input("c0", "float32", (-1, hidden)) if cell == "lstm" else None
    y, h, *_ = b.recurrent(xg, b.parameter("w", w), h0, c0, cell=cell)
    b.output(y, h)
    inputs = [RNG.standard_normal((11, 3, gates * hidden)).astype(np.float32)]
    states = 2 if cell == "lstm" else 1
    inputs += [np.zeros((3, hidden), np.float32) for _ in range(states)]
    want = run(b.program, *inputs)
    names = [value.name for value in b.program.main.outputs]
    assert apply(b.program, ["quantize_recurrent"])
    assert ops_of(b.program) == {"recurrent_int8": 1}
    assert [value.name for value in b.program.main.outputs] == names
    for whole, exact in zip(run(b.program, *inputs), want, strict=True):
        # 8 bits of each weight and state, over sums of 24 products
        np.testing.assert_allclose(whole, exact, rtol=0, atol=0.02)
        assert not np.array_equal(whole, exact)


def test_cells_that_are_not_bounded_or_not_constant_stay_in_floats() -> None:
    for cell, parameter in (("relu", True), ("tanh", False)):
        b = Builder()
        xg, h0 = b.input("xg", "float32", (-1, -1, 8)), b.input("h", "float32", (-1, 8))
        array = RNG.standard_normal((8, 8)).astype(np.float32)
        w = b.parameter("w", array) if parameter else b.input("w", "float32", (8, 8))
        b.output(b.recurrent(xg, w, h0, cell=cell)[0])
        assert not apply(b.program, ["quantize_recurrent"])
