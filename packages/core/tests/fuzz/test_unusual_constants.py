"""Bytes of constants that no writer of ours makes, as the fuzzer found them."""

from __future__ import annotations

import numpy as np

from proa.ir import Builder, to_bytes
from proa.runtime import engine_from_bytes


def test_booleans_of_any_byte_but_zero_are_true() -> None:
    # Two boxes that coincide, and one apart: which of them may be kept is a constant.
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6]]], np.float32)
    b = Builder()
    x = b.input("boxes", "float32", boxes.shape)
    valid = np.array([[0, 17, 255]], np.uint8).view(bool)
    b.output(b.box_suppress(x, b.constant(valid), threshold=0.5))
    (kept,) = engine_from_bytes(to_bytes(b.program)).run([boxes])
    np.testing.assert_array_equal(kept.view(np.uint8), [[0, 1, 1]])
