"""Constants and shapes that no writer of ours makes, as the fuzzer found them."""

from __future__ import annotations

import numpy as np
import pytest

from proa.errors import InvalidArgumentError, OutOfRangeError
from proa.ir import Builder, to_bytes
from proa.runtime import engine_from_bytes


def test_booleans_of_any_byte_but_zero_are_true() -> None:
    # Two boxes that coincide, and one apart: which of them may be kept is a constant.
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6]]], np.float32)
    b = Builder()
    x = b.input("boxes", "float32", boxes.shape)
    valid = np.array([[0, 17, 255]], np.uint8).view(bool)
    b.output(b.box_suppress(x, b.constant(valid), threshold=0.5))
    (selected,) = engine_from_bytes(to_bytes(b.program)).run([boxes])
    np.testing.assert_array_equal(selected.view(np.uint8), [[0, 1, 1]])


def test_what_repeats_an_array_without_elements_is_zeros() -> None:
    b = Builder()
    x = b.input("x", "float32", (0, 3))
    empty = b.constant(np.empty((0, 3), np.float32))
    how = {"sizes": [7, 2], "axes": [-1, 1], "divisors": [1, 1], "extras": [0, 0]}
    views = [b.sized(a, plus=[-1, -1], **how) for a in (x, empty)]
    b.output(*views, *(b.relu(v) for v in views))
    for found in engine_from_bytes(to_bytes(b.program)).run([np.empty((0, 3), "f4")]):
        np.testing.assert_array_equal(found, np.zeros((7, 6), np.float32))


@pytest.mark.parametrize("name", ["out_zero", "low"])
@pytest.mark.parametrize("number", [-129, 128, -1591738368])
def test_zeros_beyond_int8_are_refused(name: str, number: int) -> None:
    vector = np.ones(4, np.float32)
    for op, shapes in (
        ("linear_int8", ((2, 3), (3, 4))),
        ("conv2d_int8", ((2, 3, 5, 5), (4, 3, 1, 1))),
    ):
        b = Builder()
        x, w = (np.ones(s, np.int8) for s in shapes)
        how = {"dtype": "int8", "out_scale": 1.0}
        constants = [b.constant(a) for a in (w, vector, vector)]
        b.output(getattr(b, op)(b.input("x", "int8", x.shape), *constants, **how))
        b.program.main.nodes[0].attrs[name] = number
        with pytest.raises(InvalidArgumentError):
            engine_from_bytes(to_bytes(b.program))


def test_pivots_that_are_no_rows_are_refused() -> None:
    for pivot in (-(2**31), 0, 4):
        b = Builder()
        x = b.input("x", "float32", (3, 3))
        b.output(b.permute_rows(x, b.constant(np.array([1, pivot, 3], np.int32))))
        engine = engine_from_bytes(to_bytes(b.program))
        with pytest.raises(OutOfRangeError):
            engine.run([np.ones((3, 3), np.float32)])


@pytest.mark.parametrize("scale", [5e-324, 1e-30])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_tiny_scale_of_resize_leads_to_the_last_element(
    scale: float, mode: str
) -> None:
    b = Builder()
    x = b.input("x", "float32", (4,))
    b.output(b.resize_axis(x, axis=0, size=3, scale=scale, mode=mode))
    (y,) = engine_from_bytes(to_bytes(b.program)).run([np.float32([1, 2, 3, 4])])
    np.testing.assert_allclose(y[1:], [4, 4], rtol=1e-5)


def test_the_determinant_of_no_rows_is_one() -> None:
    b = Builder()
    x = b.input("x", "float64", (2, 0, 0))
    sign, logdet = b.node("slogdet", [x], {}).outputs
    b.output(sign, logdet, b.det(x))
    x = np.empty((2, 0, 0))
    found = engine_from_bytes(to_bytes(b.program)).run([x])
    for got, want in zip(found, (*np.linalg.slogdet(x), np.linalg.det(x)), strict=True):
        np.testing.assert_array_equal(got, want)
