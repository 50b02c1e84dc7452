"""Searching, sorting, sets, and statistics."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
from drawn import ALL, INTEGERS, NUMERIC, REAL, REAL_FLOATS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from proa import array_api as xp
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    ShapeError,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FILLED = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
LINES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)


def axis_of(data: Any, a: Any, tuples: bool = True) -> Any:
    one = st.integers(-a.ndim, a.ndim - 1) if a.ndim else st.none()
    if not tuples:
        return data.draw(st.none() | one)
    return data.draw(st.none() | one | hnp.valid_tuple_axes(a.ndim))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_places_of_extremes_agree_with_numpy(
    name: str, data: Any, keepdims: bool
) -> None:
    a = data.draw(drawn.arrays(REAL, FILLED))
    axis = axis_of(data, a, tuples=False)
    found = getattr(xp, name)(drawn.tensor(a), axis=axis, keepdims=keepdims)
    drawn.check(found, getattr(np, name)(a, axis=axis, keepdims=keepdims))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL, LINES))
def test_nonzero_agrees_with_numpy(a: Any) -> None:
    found = xp.nonzero(drawn.tensor(a))
    assert isinstance(found, tuple)
    for x, b in zip(found, np.nonzero(a), strict=True):
        drawn.check(x, b)


@drawn.SETTINGS
@given(data=st.data(), side=st.sampled_from(("left", "right")))
def test_searchsorted_agrees_with_numpy(data: Any, side: Any) -> None:
    dtype = data.draw(st.sampled_from(REAL))
    numbers = st.integers(0, 20)
    line = data.draw(drawn.arrays(dtype, st.integers(1, 8), numbers=numbers))
    values = data.draw(drawn.arrays(dtype, numbers=numbers))
    x, y = drawn.tensor(np.sort(line)), drawn.tensor(values)
    drawn.check(
        xp.searchsorted(x, y, side=side), np.searchsorted(np.sort(line), values, side)
    )
    sorter = np.argsort(line, kind="stable")
    found = xp.searchsorted(
        drawn.tensor(line), y, side=side, sorter=drawn.tensor(sorter)
    )
    drawn.check(found, np.searchsorted(line, values, side, sorter))


@drawn.SETTINGS
@given(data=st.data())
def test_where_agrees_with_numpy(data: Any) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3))
    dtype = data.draw(st.sampled_from(ALL))
    mask, a, b = (
        data.draw(drawn.arrays(kind, shape))
        for kind, shape in zip(("bool", dtype, dtype), shapes.input_shapes, strict=True)
    )
    found = xp.where(drawn.tensor(mask), drawn.tensor(a), drawn.tensor(b))
    drawn.check(found, np.where(mask, a, b))


@drawn.SETTINGS
@given(data=st.data())
def test_take_agrees_with_numpy(data: Any) -> None:
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
    a = data.draw(drawn.arrays(ALL, shapes))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    size = a.shape[axis]
    places = st.integers(-size, size - 1)
    kind = data.draw(st.sampled_from(INTEGERS[1:]))
    index = data.draw(drawn.arrays(kind, st.integers(0, 5), numbers=places))
    found = xp.take(drawn.tensor(a), drawn.tensor(index), axis=axis)
    drawn.check(found, np.take(a, index, axis))
    if a.ndim == 1:
        drawn.check(xp.take(drawn.tensor(a), drawn.tensor(index)), np.take(a, index))


@drawn.SETTINGS
@given(data=st.data(), descending=st.booleans(), stable=st.booleans())
def test_sorting_agrees_with_numpy_and_is_stable(
    data: Any, descending: bool, stable: bool
) -> None:
    few = st.integers(0, 3)  # so that many elements are equal
    a = data.draw(drawn.arrays(REAL, LINES, numbers=few) | drawn.arrays(REAL, LINES))
    if descending:
        a = np.nan_to_num(a) if a.dtype.kind == "f" else a
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    options = {"axis": axis, "descending": descending, "stable": stable}
    order = np.argsort(a, axis=axis, kind="stable")
    if descending:  # of equal elements the first stays first
        reverse = np.flip(np.argsort(np.flip(a, axis), axis=axis, kind="stable"), axis)
        order = (a.shape[axis] - 1 - reverse) if a.size else reverse
    x = drawn.tensor(a)
    drawn.check(xp.argsort(x, **options), order)
    drawn.check(xp.sort(x, **options), np.take_along_axis(a, order, axis))
    drawn.check(x, a)


@drawn.SETTINGS
@given(data=st.data())
def test_unique_elements_agree_with_numpy(data: Any) -> None:
    few = st.sampled_from((0, 1))
    a = data.draw(drawn.arrays(ALL, numbers=few) | drawn.arrays(ALL))
    x = drawn.tensor(a)
    expected, found = np.unique_all(a), xp.unique_all(x)
    assert found._fields == expected._fields
    for field in ("values", "inverse_indices", "counts"):
        drawn.check(getattr(found, field), getattr(expected, field))
    # NumPy gives the first place of each, too; of 0 and -0 either may be the value.
    np.testing.assert_array_equal(a.reshape(-1)[found.indices.numpy()], expected.values)
    assert xp.unique_counts(x)._fields == ("values", "counts")
    drawn.check(xp.unique_counts(x).counts, expected.counts)
    assert xp.unique_inverse(x)._fields == ("values", "inverse_indices")
    drawn.check(xp.unique_inverse(x).inverse_indices, expected.inverse_indices)
    drawn.check(xp.unique_values(x), expected.values)


def test_every_nan_is_unique() -> None:
    found = xp.unique_all(xp.asarray([xp.nan, 1.0, xp.nan, -0.0, 0.0]))
    assert found.counts.tolist() == [2, 1, 1, 1]
    assert found.indices.tolist() == [3, 1, 0, 2]


def exact_sum(a: Any) -> Any:
    """NumPy's dtype of a sum, with int64 for what is uint64 there."""
    return "int64" if a.dtype.kind in "bui" else a.dtype


@pytest.mark.parametrize("name", ["sum", "prod"])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_sums_and_products_agree_with_numpy(
    name: str, data: Any, keepdims: bool
) -> None:
    few = st.sampled_from((0, 1, 2, 3))
    a = data.draw(drawn.arrays(NUMERIC, numbers=few))
    axis = axis_of(data, a)
    options = {"axis": axis, "keepdims": keepdims}
    expected = getattr(np, name)(a, dtype=exact_sum(a), **options)
    drawn.check(getattr(xp, name)(drawn.tensor(a), **options), expected, 8)
    for dtype in ("float64", "int32") if a.dtype.kind != "c" else ("complex128",):
        expected = getattr(np, name)(a, dtype=dtype, **options)
        drawn.check(
            getattr(xp, name)(drawn.tensor(a), dtype=dtype, **options), expected, 8
        )


@pytest.mark.parametrize("name", ["max", "min", "all", "any"])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_extremes_and_truth_agree_with_numpy(
    name: str, data: Any, keepdims: bool
) -> None:
    of = ALL if name in ("all", "any") else REAL
    a = data.draw(drawn.arrays(of, drawn.SHAPES if of is ALL else FILLED))
    options = {"axis": axis_of(data, a), "keepdims": keepdims}
    found = getattr(xp, name)(drawn.tensor(a), **options)
    drawn.check(found, getattr(np, name)(a, **options))


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_moments_agree_with_numpy(name: str, data: Any, keepdims: bool) -> None:
    numbers = st.floats(-4, 4, width=16)
    a = data.draw(drawn.arrays(REAL_FLOATS, numbers=numbers))
    options = {"axis": axis_of(data, a), "keepdims": keepdims}
    if name != "mean":
        options["correction"] = data.draw(st.sampled_from((0, 1, 0.5, 2.0)))
    expected = getattr(np, name)(a, **options)
    # NumPy gives infinities where the correction is more than the number of elements.
    count = a.size if options["axis"] is None else np.prod(
        [a.shape[i] for i in np.atleast_1d(options["axis"]).astype(int)]
    )  # fmt: skip
    if count - options.get("correction", 0) < 0:
        expected = np.full_like(expected, np.nan)
    found = getattr(xp, name)(drawn.tensor(a), **options)
    if count == options.get("correction", 0):
        assert found.shape == np.shape(expected)
        return  # NaN here, infinity or NaN in NumPy
    drawn.check(found, expected, 64, 64)


@drawn.SETTINGS
@given(data=st.data(), initial=st.booleans())
def test_cumulative_sums_agree_with_numpy(data: Any, initial: bool) -> None:
    a = data.draw(drawn.arrays(NUMERIC, LINES, numbers=st.integers(0, 9)))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    if a.ndim == 1:
        axis = data.draw(st.sampled_from((None, 0)))
    expected = np.cumulative_sum(
        a, axis=axis, dtype=exact_sum(a), include_initial=initial
    )
    x = drawn.tensor(a)
    drawn.check(xp.cumulative_sum(x, axis=axis, include_initial=initial), expected)
    kind = "complex128" if a.dtype.kind == "c" else "float64"
    drawn.check(
        xp.cumulative_sum(x, axis=axis, dtype=kind),
        np.cumulative_sum(a, axis=axis, dtype=kind),
    )


def test_means_of_nothing_are_nan_and_extremes_are_refused() -> None:
    x = xp.ones((0, 3))
    assert np.isnan(xp.mean(x).item()) and np.isnan(xp.std(x).item())
    assert xp.sum(x).item() == 0 and xp.prod(x).item() == 1
    assert xp.all(x).item() and not xp.any(x).item()
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(InvalidArgumentError):
            getattr(xp, name)(x)


def test_sums_of_uint8_are_int64() -> None:
    # The standard's uint64 is no dtype of Tensors.
    assert xp.sum(xp.full(3, 200, dtype="uint8")).dtype == xp.int64
    assert xp.sum(xp.full(3, 200, dtype="uint8")).item() == 600


def test_what_does_not_fit_is_refused() -> None:
    x = xp.ones((2, 3))
    with pytest.raises(InvalidArgumentError, match="at least one axis"):
        xp.nonzero(xp.asarray(1))
    with pytest.raises(InvalidArgumentError, match="'left' or 'right', got 'middle'"):
        xp.searchsorted(xp.ones(2), x, side="middle")
    with pytest.raises(ShapeError, match="x1 must have one axis"):
        xp.searchsorted(x, x)
    with pytest.raises(InvalidArgumentError, match=r"\[take\] expected an axis"):
        xp.take(x, xp.asarray([0]))
    with pytest.raises(InvalidTypeError, match="indices must be integers"):
        xp.take(x, xp.asarray([0.0]), axis=0)
    with pytest.raises(OutOfRangeError):
        xp.take(x, xp.asarray([2]), axis=0)
    with pytest.raises(InvalidTypeError, match="expected an axis for 2 axes"):
        xp.cumulative_sum(x)
