"""Indices in recorded programs: constant or inputs, on sizes known or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import OutOfRangeError
from proa.static import InputSpec

A = np.arange(12.0, dtype=np.float32).reshape(4, 3)
SPECS = [
    InputSpec([4, 3], "float32"),
    InputSpec([None, 3], "float32"),
    InputSpec([None, None], "float32"),
]
MASK = np.array([True, False, True, True])
GOOD: list[Any] = [
    MASK, np.array([3, -1, 0]), np.zeros(0, np.int64), (slice(None), MASK[:3]),
    (MASK, np.array([0, 2, 1])), np.zeros(4, bool), A % 2 == 0,
]  # fmt: skip
SHORT, LONG = np.array([True, False]), np.array([True] * 3 + [False] * 3)
BAD: list[Any] = [
    SHORT, LONG, np.array([4]), np.array([-5]), (slice(None), LONG),
    np.zeros(6, bool), np.ones((2, 6), bool), np.zeros((2, 6), bool),
    (np.array([True] * 5), np.array([0, 1, 2, 0, 1])),
]  # fmt: skip


def tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(tensors(k) for k in key)
    return proa.to_tensor(key) if isinstance(key, np.ndarray) else key


def read(key: Any) -> Callable[[Any], Any]:
    at = tensors(key)
    return lambda x: x[at] + 0


def write(key: Any) -> Callable[[Any], Any]:
    at = tensors(key)

    def run(x: Any) -> Any:
        y = x * 1
        y[at] = 9.0
        return y

    return run


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: str(s.shape))
@pytest.mark.parametrize("key", GOOD, ids=str)
def test_constant_indices_read(spec: InputSpec, key: Any) -> None:
    run = proa.jit.to_static(read(key), input_spec=[spec])
    np.testing.assert_array_equal(run(proa.to_tensor(A)).numpy(), A[key])


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: str(s.shape))
@pytest.mark.parametrize("key", BAD, ids=str)
def test_constant_indices_that_do_not_fit_are_refused(
    spec: InputSpec, key: Any
) -> None:
    run = proa.jit.to_static(read(key), input_spec=[spec])
    with pytest.raises(OutOfRangeError):
        run(proa.to_tensor(A))


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: str(s.shape))
@pytest.mark.parametrize("key", GOOD, ids=str)
def test_constant_indices_write(spec: InputSpec, key: Any) -> None:
    want = A.copy()
    want[key] = 9
    run = proa.jit.to_static(write(key), input_spec=[spec])
    np.testing.assert_array_equal(run(proa.to_tensor(A)).numpy(), want)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: str(s.shape))
@pytest.mark.parametrize("key", BAD, ids=str)
def test_constant_indices_that_do_not_fit_write_nothing(
    spec: InputSpec, key: Any
) -> None:
    run = proa.jit.to_static(write(key), input_spec=[spec])
    with pytest.raises(OutOfRangeError):
        run(proa.to_tensor(A))


@pytest.mark.parametrize(
    ("what", "size"), [(read, None), (read, 2), (write, 2)], ids=["get", "get 2", "set"]
)
def test_indices_that_are_inputs_are_checked_by_the_run(size: Any, what: Any) -> None:
    specs = [SPECS[0], InputSpec([size], "int64")]
    run = proa.jit.to_static(lambda x, i: what(i)(x), input_spec=specs)
    x, eager = proa.to_tensor(A), what(np.array([3, -4]))
    got = run(x, proa.to_tensor([3, -4]))
    np.testing.assert_array_equal(got.numpy(), eager(x).numpy())
    with pytest.raises(IndexError):
        run(x, proa.to_tensor([4, 0]))


def test_a_saved_mask_still_fits_its_axis_alone(tmp_path: Path) -> None:
    class Masked(proa.nn.Layer):
        def forward(self, x: Any) -> Any:
            return x[proa.to_tensor(MASK)] * 1

    proa.jit.save(Masked(), str(tmp_path / "m"), [SPECS[1]])
    loaded = proa.jit.load(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded(proa.to_tensor(A)).numpy(), A[MASK])
    for rows in (3, 5):
        with pytest.raises(OutOfRangeError):
            loaded(proa.ones([rows, 3]))


def test_an_integer_next_to_an_empty_index_is_checked_where_the_size_is_known() -> None:
    empty = np.zeros(0, np.int64)
    run = proa.jit.to_static(read((7, empty)), input_spec=[SPECS[0]])
    with pytest.raises(OutOfRangeError):
        run(proa.to_tensor(A))
