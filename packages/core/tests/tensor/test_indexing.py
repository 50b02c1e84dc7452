"""x[...] and x[...] = v by NumPy's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, OutOfRangeError

A = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)
MASK = A % 7 == 0
P, Q = np.array([2, 0]), np.array([[1], [2]])

BASIC: list[Any] = [
    0, -1, (1, 2), (0, -1, 3), slice(None), slice(1, None), slice(None, None, 2),
    (slice(None), 1), (..., 0), (0, ..., 1), None, (slice(None), None, 2),
    (slice(1, 3), slice(None, -1), slice(None, None, 2)), slice(5, 9),
    (slice(None, None, -1),), (slice(None), slice(3, 0, -2)), slice(-2, None),
]  # fmt: skip
FANCY: list[Any] = [
    P, [0, 2], (P, P), (slice(None), P), (slice(None), P, P), (P, slice(None), P),
    (Q, P), (slice(None), Q, P), (0, P), (P, 0), (P, slice(None), 0), (..., P),
    (P, ..., P), (None, P), (P, None), (slice(None), P, slice(None, None, -1)),
    MASK, MASK[:, :, 0], (slice(None), MASK[0, :, 0]), (MASK[:, 0, 0], P[:1]),
    ([True, False, True],), np.array(1), (slice(1, None), [-1, 0]), (P, 1, slice(0, 2)),
    (0, slice(None), P), np.zeros((0,), np.int64), ([0, 1], [1, 2], [2, 3]),
]  # fmt: skip


def tensors(key: Any) -> Any:
    """The key with tensors in place of arrays."""
    if isinstance(key, tuple):
        return tuple(tensors(k) for k in key)
    return proa.to_tensor(key) if isinstance(key, np.ndarray) else key


def name(key: Any) -> str:
    return str(key).replace("\n", "")[:40]


@pytest.mark.feature("L028", "L029")
@pytest.mark.parametrize("key", BASIC + FANCY, ids=name)
def test_get(key: Any) -> None:
    x = proa.to_tensor(A)
    for k in (key, tensors(key)):
        y = x[k]
        assert list(y.shape) == list(A[key].shape)
        np.testing.assert_array_equal(y.numpy(), A[key])


@pytest.mark.feature("L031")
@pytest.mark.parametrize("key", BASIC + FANCY, ids=name)
@pytest.mark.parametrize("kind", ["number", "whole", "row", "numpy"])
def test_set(key: Any, kind: str) -> None:
    expected = A.copy()
    shape = expected[key].shape
    value: Any = -1.0
    if kind != "number":
        size = shape if kind != "row" else shape[-1:]
        value = np.asarray(np.random.RandomState(0).randn(*size), np.float32)
    expected[key] = value
    x = proa.to_tensor(A)
    given = proa.to_tensor(value) if kind in ("whole", "row") else value
    x[tensors(key)] = given
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("key", FANCY, ids=name)
def test_gradient_of_get(key: Any) -> None:
    x = proa.to_tensor(A, stop_gradient=False)
    y = x[tensors(key)]
    weight = np.random.RandomState(0).randn(*A[key].shape).astype(np.float32)
    (y * proa.to_tensor(weight)).sum().backward()
    expected = np.zeros_like(A)
    np.add.at(expected, key, weight)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_gradient_of_set() -> None:
    x = proa.to_tensor(A, stop_gradient=False)
    v = proa.to_tensor(np.ones((2, 5), np.float32), stop_gradient=False)
    y = x * 2
    y[proa.to_tensor([0, 2]), 1] = v * 3
    y.sum().backward()
    expected = np.full_like(A, 2)
    expected[[0, 2], 1] = 0
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    np.testing.assert_array_equal(v.grad.numpy(), np.full((2, 5), 3))


def test_set_converts_the_value() -> None:
    x = proa.zeros([3], "int64")
    x[proa.to_tensor([0, 1])] = proa.to_tensor([1.7, 2.2])
    assert x.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "key", [(0, 0, 0, 0), (..., 0, ...), [0.5], (P, P, P, P)], ids=name
)
def test_invalid_indices_are_rejected(key: Any) -> None:
    x = proa.to_tensor(A)
    with pytest.raises((OutOfRangeError, InvalidArgumentError)):
        x[tensors(key)]


def test_an_index_out_of_range_is_rejected() -> None:
    x = proa.to_tensor(A)
    with pytest.raises(IndexError):
        x[3]
    with pytest.raises(IndexError):
        x[proa.to_tensor([3])]


EMPTY = np.zeros(0, np.int64)


@pytest.mark.parametrize(
    "key",
    [
        np.array([True, False]), [True, False], (slice(None), MASK[0, :3, 0]),
        np.ones((3, 5), bool), (7, EMPTY), (slice(None), EMPTY, -6),
        (np.array([3]), slice(0, 0)), (P, np.array([0, 1, 2])),
    ],
    ids=name,
)  # fmt: skip
def test_indices_that_do_not_fit_neither_read_nor_write(key: Any) -> None:
    x = proa.to_tensor(A)
    with pytest.raises(IndexError):
        A[key]
    with pytest.raises(IndexError):
        x[tensors(key)]
    with pytest.raises(IndexError):
        x[tensors(key)] = 9
    np.testing.assert_array_equal(x.numpy(), A)


@pytest.mark.parametrize(
    "key",
    [(slice(None), EMPTY), (slice(1, 3), EMPTY), (..., EMPTY), EMPTY, (0, EMPTY)],
    ids=name,
)
def test_an_empty_index_writes_nothing(key: Any) -> None:
    x, y = proa.to_tensor(A), proa.to_tensor(A + 1)
    x[tensors(key)] = y[tensors(key)]
    np.testing.assert_array_equal(x.numpy(), A)


@pytest.mark.parametrize("key", [True, False, (..., True), (True, P), (P[:1], False)])
def test_a_single_bool_is_an_index_of_a_new_axis(key: Any) -> None:
    x, want = proa.to_tensor(A), A.copy()
    np.testing.assert_array_equal(x[tensors(key)].numpy(), A[key])
    x[tensors(key)] = 3.0
    want[key] = 3.0
    np.testing.assert_array_equal(x.numpy(), want)


STATIC_KEYS = [
    1,
    (slice(None), 2),
    slice(None, None, 2),
    slice(3, 0, -1),
    (slice(1, 3), slice(None, None, -2)),
    (Ellipsis, None, 0),
    np.array([2, 0]),
    (slice(None), np.array([1, 3])),
]


@pytest.mark.feature("L030")
@pytest.mark.parametrize("key", STATIC_KEYS, ids=str)
@pytest.mark.parametrize("kind", ["number", "array", "tensor"])
def test_assignment_records(key: Any, kind: str) -> None:
    a = np.arange(20.0, dtype="float32").reshape(4, 5)
    value: Any = np.random.default_rng(0).normal(size=a[key].shape).astype("float32")
    if kind == "number":
        value = 7.0
    given = proa.to_tensor(value) if kind == "tensor" else value
    at = tuple(
        proa.to_tensor(k) if isinstance(k, np.ndarray) else k
        for k in (key if isinstance(key, tuple) else (key,))
    )

    def write(x: Any) -> Any:
        y = x * 2
        y[at] = given
        return y + 1

    want = a * 2
    want[key] = value
    static = proa.jit.to_static(write)
    with proa.no_grad():
        for run in (write, static):
            got = run(proa.to_tensor(a)).numpy()
            np.testing.assert_allclose(got, want + 1, rtol=1e-6)
