"""Passes that let integers flow on, against integer arithmetic in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proa.ir import file, verify
from proa.ir.builder import Builder
from proa.ir.passes import optimize
from proa.ir.program import Program
from proa.runtime import engine_from_bytes

RNG = np.random.default_rng(8)
SCALES = {"x": np.float32(0.03), "r": np.float32(0.07), "y": np.float32(0.05)}


def run(program: Program, *arrays: Any) -> Any:
    return engine_from_bytes(file.to_bytes(program)).run(list(arrays))[0]


def rounded(v: Any, scale: Any) -> Any:
    return np.clip(np.rint(v.astype(np.float32) / scale), -127, 127).astype(np.int8)


def checked(program: Program, ops: list[str]) -> Program:
    """The program after the passes, which has these operators and the same result."""
    verify(program)
    optimize(program, 1)
    verify(program)
    assert [n.op for n in program.main.nodes] == ops
    assert not optimize(program, 1)
    return program


def product(b: Builder, x: Any, w: Any, **attrs: Any) -> Any:
    """An int8 product with a float32 result; multiplier and bias are returned, too."""
    multiplier = RNG.uniform(1e-4, 1e-3, w.shape[1]).astype(np.float32)
    bias = RNG.uniform(-1, 1, w.shape[1]).astype(np.float32)
    y = b.linear_int8(
        x, b.constant(w), b.constant(multiplier), b.constant(bias), dtype="float32",
        **attrs,
    )  # fmt: skip
    return y, multiplier, bias


@pytest.mark.parametrize("act", ["relu", "relu6", None])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_product_takes_a_rounded_sum_with_its_activation(
    act: str | None, swapped: bool
) -> None:
    b = Builder()
    x, r = b.input("x", "int8", (-1, 7)), b.input("r", "int8", (-1, 9))
    w = RNG.integers(-127, 128, (7, 9), dtype=np.int8)
    y, multiplier, bias = product(b, x, w)
    wide = b.dequantize(r, b.constant(SCALES["r"]))
    y = b.add(wide, y) if swapped else b.add(y, wide)
    y = y if act is None else getattr(b, act)(y)
    b.output(b.quantize(y, b.constant(SCALES["y"])))
    before = file.from_bytes(file.to_bytes(b.program))
    after = checked(b.program, ["linear_int8"])
    xs, rs = (RNG.integers(-127, 128, (5, n), dtype=np.int8) for n in (7, 9))
    v = (xs.astype(np.int64) @ w.astype(np.int64)).astype(np.float32)
    v = v * multiplier + bias + rs.astype(np.float32) * SCALES["r"]
    v = v if act is None else np.clip(v, 0, 6 if act == "relu6" else np.inf)
    want = rounded(v, SCALES["y"])
    np.testing.assert_array_equal(run(after, xs, rs), want)
    np.testing.assert_array_equal(run(before, xs, rs), want)


def test_parts_of_a_concat_are_integers_before_they_are_joined() -> None:
    b = Builder()
    x = b.input("x", "int8", (-1, 7))
    w, u = (RNG.integers(-127, 128, (7, n), dtype=np.int8) for n in (3, 5))
    (y, *first), (z, *second) = product(b, x, w), product(b, x, u)
    b.output(b.quantize(b.concat(y, z, axis=1), b.constant(SCALES["y"])))
    after = checked(b.program, ["linear_int8", "linear_int8", "concat"])
    xs = RNG.integers(-127, 128, (5, 7), dtype=np.int8)
    parts = [
        (xs.astype(np.int64) @ k.astype(np.int64)).astype(np.float32) * m + c
        for k, (m, c) in ((w, first), (u, second))
    ]
    want = rounded(np.concatenate(parts, 1), SCALES["y"])
    np.testing.assert_array_equal(run(after, xs), want)


def test_integers_that_are_only_moved_stay_integers() -> None:
    b = Builder()
    q = b.input("q", "int8", (-1, 2, 4, 4))
    scale = b.constant(SCALES["x"])
    y = b.max_pool2d(b.dequantize(q, scale), kernel=[2, 2], stride=[2, 2])
    b.output(b.flatten(b.quantize(y, scale), start_axis=1))
    after = checked(b.program, ["max_pool2d", "flatten"])
    whole = RNG.integers(-127, 128, (3, 2, 4, 4), dtype=np.int8)
    want = whole.reshape(3, 2, 2, 2, 2, 2).max(axis=(3, 5)).reshape(3, -1)
    np.testing.assert_array_equal(run(after, whole), want)


def test_every_integer_is_what_its_number_rounds_to() -> None:
    # Why quantize(dequantize(q, s), s) is q: for any scale that is a normal float.
    whole = np.arange(-127, 128, dtype=np.int8)
    for scale in np.float32(2.0) ** RNG.uniform(-100, 100, 2000).astype(np.float32):
        np.testing.assert_array_equal(rounded(whole * scale, scale), whole)


def test_what_others_read_and_other_scales_are_left_alone() -> None:
    b = Builder()
    x = b.input("x", "int8", (-1, 7))
    w = RNG.integers(-127, 128, (7, 4), dtype=np.int8)
    y, *_ = product(b, x, w)
    b.output(b.add(y, y), b.relu(y))
    z, *_ = product(b, x, w)
    scales = RNG.uniform(0.1, 1, 4).astype(np.float32)
    b.output(b.quantize(z, b.constant(scales), axis=1))
    wide = b.dequantize(x, b.constant(SCALES["x"]))
    b.output(b.quantize(wide, b.constant(SCALES["y"])))
    verify(b.program)
    before = [n.op for n in b.program.main.nodes]
    optimize(b.program, 1)
    assert [n.op for n in b.program.main.nodes] == before


def test_a_residual_that_must_be_broadcast_is_added_by_itself() -> None:
    b = Builder()
    x, r = b.input("x", "int8", (-1, 7)), b.input("r", "float32", (9,))
    y, *_ = product(b, x, RNG.integers(-127, 128, (7, 9), dtype=np.int8))
    b.output(b.add(y, r))
    checked(b.program, ["linear_int8", "add"])
