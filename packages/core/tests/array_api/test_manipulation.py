"""Functions that rearrange arrays, and indexing."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import drawn
import numpy as np
import pytest
from drawn import ALL
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

AXIS = st.integers(-4, 3)


def axes_of(data: Any, rank: int, min_size: int = 0) -> Any:
    found = data.draw(hnp.valid_tuple_axes(rank, min_size=min_size)) if rank else ()
    return tuple(found)


@drawn.SETTINGS
@given(data=st.data())
def test_broadcasting_agrees_with_numpy(data: Any) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3))
    given_ = [data.draw(drawn.arrays(ALL, s)) for s in shapes.input_shapes]
    found = xp.broadcast_arrays(*map(drawn.tensor, given_))
    assert isinstance(found, (list, tuple))
    for x, a in zip(found, np.broadcast_arrays(*given_), strict=True):
        drawn.check(x, a)
    drawn.check(
        xp.broadcast_to(drawn.tensor(given_[0]), shapes.result_shape),
        np.broadcast_to(given_[0], shapes.result_shape),
    )


@drawn.SETTINGS
@given(data=st.data())
def test_concat_and_stack_agree_with_numpy(data: Any) -> None:
    dtype = data.draw(st.sampled_from(ALL))
    shape = data.draw(hnp.array_shapes(max_dims=3, min_side=0, max_side=3))
    rank = len(shape)
    axis = data.draw(st.integers(-rank, rank - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    given_ = []
    for size in sizes:
        own = list(shape)
        own[axis] = size
        given_.append(data.draw(drawn.arrays(dtype, tuple(own))))
    found = xp.concat([drawn.tensor(a) for a in given_], axis=axis)
    drawn.check(found, np.concatenate(given_, axis=axis))
    found = xp.concat(tuple(drawn.tensor(a) for a in given_), axis=None)
    drawn.check(found, np.concatenate(given_, axis=None))
    same = [data.draw(drawn.arrays(dtype, shape)) for _ in sizes]
    axis = data.draw(st.integers(-rank - 1, rank))
    found = xp.stack([drawn.tensor(a) for a in same], axis=axis)
    drawn.check(found, np.stack(same, axis=axis))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL), data=st.data())
def test_axes_are_added_removed_and_exchanged_as_by_numpy(a: Any, data: Any) -> None:
    x = drawn.tensor(a)
    axis = data.draw(st.integers(-a.ndim - 1, a.ndim))
    wider = np.expand_dims(a, axis)
    drawn.check(xp.expand_dims(x, axis=axis), wider)
    drawn.check(xp.squeeze(xp.asarray(wider), axis), np.squeeze(wider, axis))
    order = tuple(data.draw(st.permutations(range(a.ndim))))
    drawn.check(xp.permute_dims(x, order), np.transpose(a, order))
    source = axes_of(data, a.ndim)
    target = tuple(data.draw(st.permutations(range(a.ndim))))[: len(source)]
    drawn.check(xp.moveaxis(x, source, target), np.moveaxis(a, source, target))
    if a.ndim:
        drawn.check(xp.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1))
    if a.ndim >= 2:
        drawn.check(xp.matrix_transpose(x), np.matrix_transpose(a))
        drawn.check(x.mT, np.matrix_transpose(a))
    if a.ndim == 2:
        drawn.check(x.T, a.T)


@drawn.SETTINGS
@given(a=drawn.arrays(ALL), data=st.data())
def test_flip_and_roll_agree_with_numpy(a: Any, data: Any) -> None:
    x = drawn.tensor(a)
    drawn.check(xp.flip(x), np.flip(a))
    axes = axes_of(data, a.ndim, 1) if a.ndim else ()
    drawn.check(xp.flip(x, axis=axes), np.flip(a, axes))
    by = st.integers(-6, 6)
    shift = data.draw(by)
    drawn.check(xp.roll(x, shift), np.roll(a, shift))
    if a.ndim:
        drawn.check(xp.roll(x, shift, axis=axes[0]), np.roll(a, shift, axes[0]))
        shifts = tuple(data.draw(by) for _ in axes)
        drawn.check(xp.roll(x, shifts, axis=axes), np.roll(a, shifts, axes))
        drawn.check(xp.roll(x, shift, axis=axes), np.roll(a, shift, axes))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL), data=st.data())
def test_repeat_and_tile_agree_with_numpy(a: Any, data: Any) -> None:
    x, times = drawn.tensor(a), data.draw(st.integers(0, 3))
    drawn.check(xp.repeat(x, times), np.repeat(a, times))
    if a.ndim:
        axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
        drawn.check(xp.repeat(x, times, axis=axis), np.repeat(a, times, axis))
        each = data.draw(hnp.arrays("int64", a.shape[axis], elements=st.integers(0, 3)))
        found = xp.repeat(x, drawn.tensor(each), axis=axis)
        drawn.check(found, np.repeat(a, each, axis))
    by = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    drawn.check(xp.tile(x, by), np.tile(a, by))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL), data=st.data())
def test_reshape_agrees_with_numpy(a: Any, data: Any) -> None:
    x = drawn.tensor(a)
    shapes = [(a.size,), (-1,), (1, a.size, 1), (a.size, 1), tuple(a.shape[::-1])]
    if a.size == 0:
        shapes = [(0,), (3, 0), (0, 2, 5), tuple(a.shape[::-1])]
    shape = data.draw(st.sampled_from(shapes))
    copy = data.draw(st.sampled_from((None, True, False)))
    y = xp.reshape(x, shape, copy=copy)
    drawn.check(y, a.reshape(shape))
    if a.size:
        shares = np.shares_memory(y.numpy(), x.numpy())
        assert shares if copy is False else copy is None or not shares
    drawn.check(x, a)


def test_reshape_that_needs_a_copy_says_so() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    with pytest.raises(InvalidArgumentError, match="copy=False"):
        xp.reshape(x.mT, (6,), copy=False)
    with pytest.raises(ShapeError, match="a shape of 6 elements"):
        xp.reshape(x, (4, 2))


@drawn.SETTINGS
@given(a=drawn.arrays(ALL, hnp.array_shapes(max_dims=3, min_side=0)), data=st.data())
def test_unstack_agrees_with_numpy(a: Any, data: Any) -> None:
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    found = xp.unstack(drawn.tensor(a), axis=axis)
    assert isinstance(found, tuple)
    for x, b in zip(found, np.unstack(a, axis=axis), strict=True):
        drawn.check(x, b)


@drawn.SETTINGS
@given(data=st.data())
def test_indexing_agrees_with_numpy(data: Any) -> None:
    a = data.draw(drawn.arrays(ALL))
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))
    x = drawn.tensor(a)
    drawn.check(x[key], np.asarray(a[key]))
    mask = data.draw(drawn.arrays("bool", a.shape))
    drawn.check(x[drawn.tensor(mask)], a[mask])
    value = np.ones((), a.dtype)
    b = a.copy()
    b[key] = value
    x[key] = drawn.tensor(value)
    drawn.check(x, b)
    b[mask] = np.zeros((), a.dtype)
    x[drawn.tensor(mask)] = drawn.tensor(np.zeros((), a.dtype))
    drawn.check(x, b)


def test_an_axis_that_is_not_there_is_an_index_error() -> None:
    x = xp.ones((2, 3))
    for call in (
        lambda: xp.expand_dims(x, axis=3), lambda: xp.flip(x, axis=2),
        lambda: xp.squeeze(x, 2), lambda: xp.concat([x, x], axis=-3),
        lambda: xp.stack([x], axis=3), lambda: xp.unstack(x, axis=2),
        lambda: xp.sum(x, axis=2), lambda: xp.sort(x, axis=2),
        lambda: xp.moveaxis(x, 0, 2), lambda: xp.permute_dims(x, (0, 2)),
    ):  # fmt: skip
        with pytest.raises(OutOfRangeError, match="axis must be in"):
            call()
        with pytest.raises(IndexError):
            call()


def test_what_does_not_fit_is_refused() -> None:
    x = xp.ones((2, 3))
    with pytest.raises(ShapeError, match=r"\[squeeze\] size 1 along 0"):
        xp.squeeze(x, 0)
    with pytest.raises(InvalidArgumentError, match="each axis once"):
        xp.flip(x, axis=(0, -2))
    with pytest.raises(InvalidArgumentError, match=r"\[permute_dims\] expected 2 axes"):
        xp.permute_dims(x, (1,))
    with pytest.raises(InvalidArgumentError, match="a shift for each axis"):
        xp.roll(x, (1, 2), axis=(0,))
    with pytest.raises(InvalidArgumentError, match="without an axis"):
        xp.roll(x, (1, 2))
    with pytest.raises(InvalidArgumentError, match="as many destinations"):
        xp.moveaxis(x, (0, 1), (0,))
    with pytest.raises(InvalidArgumentError, match="list or tuple of Tensors"):
        xp.concat([])
    with pytest.raises(InvalidTypeError, match="expected a Tensor, got ndarray"):
        xp.stack([x, np.ones((2, 3))])
    with pytest.raises(ShapeError, match="repeats must be of size 3"):
        xp.repeat(x, xp.asarray([1, 2]), axis=1)
    with pytest.raises(InvalidTypeError, match="repeats must be integers"):
        xp.repeat(x, xp.asarray([1.0, 2.0]), axis=0)
    with pytest.raises(InvalidArgumentError):
        xp.broadcast_to(x, (3, 2))
    with pytest.raises(InvalidArgumentError):
        xp.broadcast_arrays(x, xp.ones((3, 2)))
    with pytest.raises(InvalidTypeError, match="axis must be an int, got float"):
        xp.sum(x, axis=1.0)


def test_a_shape_is_a_list_and_a_tuple() -> None:
    shape = xp.ones((2, 3)).shape
    assert shape == (2, 3) and shape == [2, 3]
    assert tuple.__eq__((2, 3), shape) is NotImplemented  # so that shape is compared
    assert shape != (3, 2) and shape != (2,) and shape != [3, 2]
    assert operator.add(shape[:1], (4,)) == (2, 4)
    assert operator.add((4,), shape[1:]) == (4, 3)
    assert operator.add(shape, [1]) == [2, 3, 1]
    assert operator.add([1], shape) == [1, 2, 3]
    assert isinstance(shape, list) and isinstance(shape[1:], list)
    shape += [4]
    shape[0] = 9
    assert shape == [9, 3, 4] == copy.deepcopy(shape)
    assert type(pickle.loads(pickle.dumps(shape))) is list
