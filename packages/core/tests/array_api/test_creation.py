"""Functions that make arrays."""

from __future__ import annotations

import array
from typing import Any

import drawn
import numpy as np
import pytest
from drawn import ALL, NUMERIC, REAL
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import proa
from proa import array_api as xp
from proa.errors import ExchangeError, InvalidArgumentError, InvalidTypeError

NEXT = {"float64": "float32", "complex128": "complex64"}


def as_default(a: Any) -> Any:
    """With Proa's default dtypes in place of NumPy's."""
    a = np.asarray(a)
    return a.astype(NEXT.get(a.dtype.name, a.dtype.name))


@pytest.mark.parametrize("value", [True, 3, 2.5, 1 + 2j, [[1, 2], [3, 4]], [], [[], []],
                                   [True, False], (1.5, 2), [1j, 2.0]])  # fmt: skip
def test_asarray_of_python_numbers(value: Any) -> None:
    drawn.check(xp.asarray(value), as_default(np.asarray(value)))
    with pytest.raises(InvalidArgumentError, match="copy=False"):
        xp.asarray(value, copy=False)


@drawn.SETTINGS
@given(a=drawn.arrays(ALL))
def test_asarray_of_an_array_shares_its_memory_or_copies_it(a: Any) -> None:
    drawn.check(xp.asarray(a), a)
    shared, copied = xp.asarray(a, copy=False), xp.asarray(a, copy=True)
    x = xp.asarray(shared)
    assert x is shared is xp.asarray(shared, copy=False)
    assert xp.asarray(shared, copy=True) is not shared
    if a.size:
        before = a.copy()
        a[...] = 1
        drawn.check(shared, a)
        drawn.check(copied, before)


def test_asarray_converts() -> None:
    a = np.asarray([1.5, 2.5])
    assert xp.asarray(a, dtype=xp.int32).tolist() == [1, 2]
    assert xp.asarray([1, 2], dtype=xp.float64).dtype == xp.float64
    with pytest.raises(InvalidArgumentError, match="expected dtype float64"):
        xp.asarray(a, dtype=xp.int32, copy=False)
    a.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="copy=False"):
        xp.asarray(a, copy=False)
    drawn.check(xp.asarray(a), a)


def test_asarray_of_buffers_and_scalars() -> None:
    numbers = array.array("d", [1.0, 2.0])
    x = xp.asarray(numbers)
    numbers[0] = 7
    assert x.dtype == xp.float64 and x.tolist() == [7.0, 2.0]
    assert xp.asarray(np.float64(2.5)).dtype == xp.float64
    assert xp.asarray([proa.ones([2]), proa.zeros([2])]).tolist() == [[1, 1], [0, 0]]
    with pytest.raises((InvalidArgumentError, OverflowError)):
        xp.asarray(2**80)


@drawn.SETTINGS
@given(data=st.data())
def test_arange_agrees_with_numpy(data: Any) -> None:
    numbers = st.integers(-20, 20) | st.floats(-20, 20).map(lambda v: round(v * 4) / 4)
    start, stop = data.draw(numbers), data.draw(st.none() | numbers)
    step = data.draw(numbers.filter(lambda v: v != 0))
    drawn.check(xp.arange(start, stop, step), as_default(np.arange(start, stop, step)))
    dtype = data.draw(st.sampled_from(REAL))
    whole = all(isinstance(v, (int, type(None))) for v in (start, stop, step))
    positive = min(start, stop or 0) >= 0
    if whole and (positive or dtype != "uint8"):
        drawn.check(
            xp.arange(start, stop, step, dtype=dtype),
            np.arange(start, stop, step, dtype),
        )


@drawn.SETTINGS
@given(data=st.data())
def test_linspace_agrees_with_numpy(data: Any) -> None:
    ends = st.integers(-50, 50) | st.floats(-50, 50, width=32)
    start, stop = data.draw(ends), data.draw(ends)
    num, endpoint = data.draw(st.integers(0, 20)), data.draw(st.booleans())
    expected = np.linspace(start, stop, num, endpoint=endpoint)
    result = xp.linspace(start, stop, num, endpoint=endpoint, dtype="float64")
    drawn.check(result, expected, 4)
    default = xp.linspace(start, stop, num, endpoint=endpoint)
    drawn.check(default, expected.astype("float32"), 4)


def test_linspace_of_complex_numbers() -> None:
    drawn.check(
        xp.linspace(0, 1 + 2j, 3), np.linspace(0, 1 + 2j, 3).astype("complex64")
    )


@drawn.SETTINGS
@given(
    rows=st.integers(0, 6), columns=st.none() | st.integers(0, 6),
    k=st.integers(-8, 8), dtype=st.sampled_from(NUMERIC),
)  # fmt: skip
def test_eye_agrees_with_numpy(rows: int, columns: Any, k: int, dtype: str) -> None:
    drawn.check(
        xp.eye(rows, columns, k=k, dtype=dtype), np.eye(rows, columns, k, dtype)
    )
    assert xp.eye(rows).dtype == xp.float32


@drawn.SETTINGS
@given(shape=hnp.array_shapes(min_dims=0, min_side=0, max_dims=4), data=st.data())
def test_filled_arrays_agree_with_numpy(shape: Any, data: Any) -> None:
    dtype = data.draw(st.sampled_from(ALL))
    value = data.draw(drawn.elements(dtype))
    value = np.asarray(value, dtype).item()
    expected = np.full(shape, value, dtype)
    drawn.check(xp.full(shape, value, dtype=dtype), expected)
    drawn.check(xp.full(shape, value), as_default(np.full(shape, value)))
    x = xp.asarray(expected, copy=True)
    drawn.check(xp.full_like(x, value), expected)
    for name in ("zeros", "ones"):
        result = getattr(np, name)(shape, dtype)
        drawn.check(getattr(xp, name)(shape, dtype=dtype), result)
        drawn.check(getattr(xp, f"{name}_like")(x), result)
        drawn.check(getattr(xp, name)(shape), result.real.astype("float32"))
        drawn.check(
            getattr(xp, f"{name}_like")(x, dtype="int16"), np.ones_like(result, "int16")
            * (name == "ones"),
        )  # fmt: skip
    for y in (xp.empty(shape, dtype=dtype), xp.empty_like(x)):
        assert y.shape == shape and y.dtype == dtype


def test_a_size_is_a_shape_of_one_axis() -> None:
    assert xp.zeros(3).shape == (3,) and xp.full(2, 1).shape == (2,)


@drawn.SETTINGS
@given(data=st.data(), indexing=st.sampled_from(("xy", "ij")))
def test_meshgrid_agrees_with_numpy(data: Any, indexing: Any) -> None:
    dtype, count = data.draw(st.sampled_from(NUMERIC)), data.draw(st.integers(1, 4))
    line = hnp.array_shapes(max_dims=1, max_side=3)
    given_ = [data.draw(drawn.arrays(dtype, line)) for _ in range(count)]
    found = xp.meshgrid(*map(drawn.tensor, given_), indexing=indexing)
    assert isinstance(found, list)
    for x, a in zip(found, np.meshgrid(*given_, indexing=indexing), strict=True):
        drawn.check(x, a)


def test_meshgrid_refuses_unlike_dtypes_and_orders() -> None:
    with pytest.raises(InvalidArgumentError, match="one dtype"):
        xp.meshgrid(xp.ones(2), xp.ones(2, dtype="int8"))
    with pytest.raises(InvalidArgumentError, match="'xy' or 'ij', got 'yx'"):
        xp.meshgrid(xp.ones(2), indexing="yx")
    assert xp.meshgrid() == []


@pytest.mark.parametrize("name", ["tril", "triu"])
@drawn.SETTINGS
@given(data=st.data(), k=st.integers(-5, 5))
def test_triangles_agree_with_numpy(name: str, data: Any, k: int) -> None:
    shapes = hnp.array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=4)
    a = data.draw(drawn.arrays(ALL, shapes))
    drawn.check(getattr(xp, name)(drawn.tensor(a), k=k), getattr(np, name)(a, k))


def test_triangles_are_of_matrices() -> None:
    with pytest.raises(InvalidArgumentError, match="at least 2 axes"):
        xp.tril(xp.ones(3))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL))
def test_dlpack_exchanges_in_both_directions_without_a_copy(a: Any) -> None:
    x = xp.from_dlpack(a)
    drawn.check(x, a)
    back = np.from_dlpack(x)
    assert back.dtype == a.dtype and back.shape == a.shape
    np.testing.assert_array_equal(back, a)
    if a.size:
        before = a.copy()
        copies = xp.from_dlpack(a, copy=True), np.from_dlpack(x, copy=True)
        a[...] = 1
        drawn.check(x, a)
        np.testing.assert_array_equal(back, a)
        drawn.check(copies[0], before)
        np.testing.assert_array_equal(copies[1], before)


def test_dlpack_states_its_version_and_device() -> None:
    x = xp.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    new = x.__dlpack__(max_version=(1, 1), dl_device=(1, 0), copy=True)
    assert '"dltensor_versioned"' in repr(new)
    y = xp.from_dlpack(new)
    y += 0
    assert y.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="PyCapsule"):  # a capsule is taken once
        xp.from_dlpack(new)


def test_dlpack_errors_are_buffer_errors() -> None:
    x, a = xp.ones(3), np.ones(3)
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError) as caught:
            x.__dlpack__(**options)
        assert isinstance(caught.value, ExchangeError)
    a.flags.writeable = False
    y = xp.from_dlpack(a)  # read-only memory is copied
    assert not np.shares_memory(y.numpy(), a)
    with pytest.raises(BufferError, match="read-only"):
        xp.from_dlpack(a, copy=False)
    with pytest.raises(InvalidTypeError, match="expected an object with __dlpack__"):
        xp.from_dlpack([1, 2])

    class OnADevice:
        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError("nothing is taken from there")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(BufferError, match=r"of device \(2, 1\)"):
        xp.from_dlpack(OnADevice())


def test_dlpack_of_a_producer_of_version_0() -> None:
    class Old:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.a.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    a = np.arange(4.0)
    shared, copied = xp.from_dlpack(Old(a)), xp.from_dlpack(Old(a), copy=True)
    a[0] = 9
    assert shared.tolist() == [9, 1, 2, 3] and copied.tolist() == [0, 1, 2, 3]


@drawn.SETTINGS
@given(data=st.data())
def test_dlpack_follows_strides(data: Any) -> None:
    a = data.draw(drawn.arrays(NUMERIC, (4, 6)))
    assume(not np.isnan(a).any())
    drawn.check(xp.from_dlpack(a[::2, 1::3]), a[::2, 1::3])
    x = drawn.tensor(a)[::2, 1::3]
    np.testing.assert_array_equal(np.from_dlpack(x), a[::2, 1::3])
