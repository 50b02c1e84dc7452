"""Sums of int8 that int32 does not hold are refused by every runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa_lite
from proa.errors import InvalidArgumentError
from proa.ir import Program, write
from proa.ir.builder import Builder
from proa_inference import Config, create_predictor

#: 128 * 128 * 131071 < 2^31
LIMIT = 131_071


def linear(path: Path, steps: int) -> Path:
    """A model of one product, whose weight is made longer after its shape was checked:
    a file may hold anything.
    """
    program = Program()
    b = Builder(program)
    x = b.input("x", "int8", [1, 4])
    w = b.parameter("w", np.full((4, 1), -128, np.int8))
    ones = b.constant(np.ones(1, np.float32))
    b.output(b.linear_int8(x, w, ones, None, None, dtype="float32"))
    x.shape = (1, steps)
    w.shape, w.data = (steps, 1), np.full((steps, 1), -128, np.int8)
    write(program, path)
    return path


def product(path: Path) -> Path:
    """A model whose number of steps is known at each run alone."""
    b = Builder()
    x, y = b.input("x", "int8", [1, -1]), b.input("y", "int8", [-1, 1])
    b.output(b.matmul_int8(x, y, scale=1.0, y_zero=127, dtype="float32"))
    write(b.program, path)
    return path


def test_a_model_of_too_long_a_sum_is_refused(tmp_path: Path) -> None:
    path = linear(tmp_path / "long.proa", LIMIT + 1)
    x = np.full((1, LIMIT + 1), -128, np.int8)
    message = "the shapes and dtypes of its inputs, got op 'linear_int8'"
    with pytest.raises(InvalidArgumentError, match=message):
        create_predictor(Config(path)).run([x])
    message = "linear_int8: expected that the op supports the shapes"
    with pytest.raises(proa_lite.InvalidArgumentError, match=message):
        proa_lite.create_predictor(proa_lite.Config(path)).run([x])


def test_the_longest_sum_is_exact(tmp_path: Path) -> None:
    path = linear(tmp_path / "long.proa", LIMIT)
    x = np.full((1, LIMIT), -128, np.int8)
    want = np.float32(LIMIT * 128 * 128)
    (found,) = create_predictor(Config(path)).run([x])
    assert found.item() == want
    (found,) = proa_lite.create_predictor(proa_lite.Config(path)).run([x])
    assert found.item() == want


def test_an_input_of_too_many_steps_is_refused(tmp_path: Path) -> None:
    path = product(tmp_path / "open.proa")
    predictor = create_predictor(Config(path))
    device = proa_lite.create_predictor(proa_lite.Config(path))
    arrays = [np.full(shape, -128, np.int8) for shape in ((1, 65_793), (65_793, 1))]
    want = np.float32(65_793 * 128 * 255)  # less the zero point, y is -255
    assert predictor.run(arrays)[0].item() == want
    assert device.run(arrays)[0].item() == want
    arrays = [np.full(shape, -128, np.int8) for shape in ((1, 65_794), (65_794, 1))]
    with pytest.raises(InvalidArgumentError, match=r"fit op 'matmul_int8'.*65794"):
        predictor.run(arrays)
    with pytest.raises(proa_lite.InvalidArgumentError, match="matmul_int8: shapes"):
        device.run(arrays)
