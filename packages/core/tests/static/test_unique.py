"""Distinct elements in static programs, whose number follows from data, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static

RNG = np.random.default_rng(7)
ROWS = RNG.integers(0, 2, (9, 2, 2))


def run(x: Any, function: Any, shape: Any = None) -> list[Any]:
    x = np.asarray(x)
    data = static.data("x", [None] * x.ndim if shape is None else shape, str(x.dtype))
    return list(static.Executor().run(feed={"x": x}, fetch_list=list(function(data))))


VECTORS = {
    "integers": RNG.integers(0, 6, 20),
    "int32": RNG.integers(-3, 3, 9).astype("int32"),
    "floats": RNG.integers(0, 4, 12).astype("float32") / 4,
    "nan": np.array([1, np.nan, 0, np.nan, 1, -np.inf], "float64"),
    "bool": np.array([True, False, True, True]),
    "one": np.array([5]),
    "none": np.zeros(0, "int64"),
    "matrix": RNG.integers(0, 5, (3, 4)),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("known", [True, False])
def test_all_results_are_those_of_numpy(
    static_mode: Any, name: str, known: bool
) -> None:
    x = VECTORS[name]

    def function(data: Any) -> Any:
        return proa.unique(data, True, True, True)

    found = run(x, function, list(x.shape) if known else None)
    wanted = np.unique(x, True, True, True)
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, want.ravel())


@pytest.mark.parametrize(("axis", "shape"), [(0, [None, 2, 2]), (1, [9, None, 2]),
                                             (-1, [9, 2, 2])])  # fmt: skip
def test_entries_along_an_axis(static_mode: Any, axis: int, shape: Any) -> None:
    found = run(ROWS, lambda x: proa.unique(x, True, True, True, axis, "int32"), shape)
    wanted = np.unique(ROWS, True, True, True, axis)
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, want.reshape(one.shape))
    assert [f.dtype.name for f in found] == ["int64", "int32", "int32", "int32"]


@pytest.mark.parametrize(
    ("shape", "declared", "axis"),
    [((9, 3), [None, None], 0), ((9, 3), [9, None], 0), ((4, 300), [None, 300], 0),
     ((2, 7), [None, None], 1), ((6, 1, 2), [None, None, None], 0),
     ((1, 4), [None, None], 0), ((5, 0), [5, 0], 0)],
)  # fmt: skip
def test_entries_of_unknown_or_large_size(
    static_mode: Any, shape: Any, declared: Any, axis: int
) -> None:
    x = RNG.integers(0, 2, shape)
    if shape[-1] == 300:
        x[2] = x[0]
    found = run(x, lambda x: proa.unique(x, True, True, True, axis), declared)
    wanted = np.unique(x, True, True, True, axis)
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, want.reshape(one.shape))


@pytest.mark.parametrize("axis", [None, 0])
def test_repetitions_of_a_neighbour_go(static_mode: Any, axis: int | None) -> None:
    x = np.repeat(RNG.integers(0, 3, 6), 2) if axis is None else ROWS[:, 0]

    def function(x: Any) -> Any:
        return proa.unique_consecutive(x, True, True, axis)

    found = run(x, function)
    static.default_main_program()
    proa.disable_static()
    wanted = function(proa.to_tensor(x))
    fresh = np.ones(len(x), bool)
    fresh[1:] = (x[1:] != x[:-1]).reshape(len(x) - 1, -1).any(1)
    np.testing.assert_array_equal(found[0], x[fresh])
    np.testing.assert_array_equal(found[1], np.cumsum(fresh) - 1)
    np.testing.assert_array_equal(found[2], np.bincount(found[1]))
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, want.numpy())


def test_gradients_go_to_the_first_of_equal_elements(static_mode: Any) -> None:
    def function(x: Any) -> Any:
        x.stop_gradient = False
        return static.gradients([(proa.unique(x) ** 2).sum()], [x])

    x = np.array([3, 1, 3, 2, 1], "float32")
    (grad,) = run(x, function)
    np.testing.assert_array_equal(grad, [6, 2, 0, 4, 0])
