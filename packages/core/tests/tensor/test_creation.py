"""Making tensors, and conversions to and from Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error, InvalidArgumentError


def same(x: Any, expected: Any) -> None:
    """x equals the array, dtype and shape included."""
    array = np.asarray(expected)
    assert list(x.shape) == list(array.shape)
    assert x.dtype == array.dtype.name, (x.dtype, array.dtype)
    np.testing.assert_array_equal(x.numpy(), array)


def test_python_numbers_get_the_default_dtypes() -> None:
    assert proa.to_tensor(1).dtype == proa.int64
    assert proa.to_tensor(1.0).dtype == proa.float32
    assert proa.to_tensor(True).dtype == proa.bool
    assert proa.to_tensor([1.0, 2]).dtype == proa.float32
    assert proa.to_tensor(1j).dtype == proa.complex64
    assert proa.to_tensor(3).shape == []


@pytest.mark.feature("L003")
@pytest.mark.feature("L001")
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64"]
)
def test_numpy_arrays_round_trip_with_their_dtype(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    x = proa.to_tensor(array)
    same(x, array)
    array[0, 0] = 1
    assert x.numpy()[0, 0] == 0  # a copy
    x.set_value(array)
    same(x, array)


def test_to_tensor_takes_nested_lists_with_tensors() -> None:
    x = proa.to_tensor([proa.to_tensor(1.0), 2.0])
    same(x, np.array([1, 2], np.float32))
    y = proa.to_tensor([[1, 2], [3, 4]], dtype="float64", stop_gradient=False)
    assert y.dtype == proa.float64
    assert not y.stop_gradient


def test_to_tensor_rejects_ragged_and_text() -> None:
    with pytest.raises((InvalidArgumentError, ValueError)):
        proa.to_tensor([[1, 2], [3]])
    with pytest.raises(InvalidArgumentError, match="nested numbers"):
        proa.to_tensor("abc")


@pytest.mark.feature("L026")
def test_to_tensor_takes_the_dtype_of_a_tensor() -> None:
    x = proa.ones([2], "int32")
    assert proa.to_tensor([1.5, 2.5], dtype=x.dtype).dtype == proa.int32


@pytest.mark.feature("L019", "L022")
def test_dtypes_compare_with_names_and_numpy() -> None:
    x = proa.zeros([1], proa.float32)
    assert x.dtype == "float32" == proa.float32
    assert isinstance(x.dtype, proa.dtype) and isinstance(proa.int8, proa.dtype)
    assert x.dtype == np.float32
    assert str(x.dtype) == "paddle.float32" and repr(x.dtype) == "proa.float32"
    assert f"{x.dtype}" == "paddle.float32" and x.dtype == "paddle.float32"
    assert {proa.int64: 1}[proa.to_tensor(1).dtype] == 1


def test_default_dtype_can_be_set() -> None:
    assert proa.get_default_dtype() == "float32"
    proa.set_default_dtype("float64")
    try:
        assert proa.to_tensor(1.5).dtype == proa.float64
        assert proa.zeros([1]).dtype == proa.float64
    finally:
        proa.set_default_dtype("float32")
    with pytest.raises(InvalidArgumentError, match="floating"):
        proa.set_default_dtype("int32")


@pytest.mark.feature("L015")
def test_filled_tensors() -> None:
    same(proa.zeros([2, 3]), np.zeros((2, 3), np.float32))
    same(proa.ones([2], "int32"), np.ones(2, np.int32))
    same(proa.full([2, 2], 3.5), np.full((2, 2), 3.5, np.float32))
    same(proa.full([2], 7), np.full(2, 7))
    same(proa.full([2], True), np.full(2, True))
    same(proa.zeros_like(proa.ones([2], "int64")), np.zeros(2, np.int64))
    same(proa.full_like(proa.ones([2]), 4, "int32"), np.full(2, 4, np.int32))
    same(proa.ones_like(proa.zeros([0, 2])), np.ones((0, 2), np.float32))
    assert proa.empty([2, 3]).shape == [2, 3]
    same(proa.zeros(proa.to_tensor([2, 1])), np.zeros((2, 1), np.float32))


@pytest.mark.feature("L020", "L036")
def test_full_keeps_large_integers_and_takes_uint8() -> None:
    big = 2**53 + 1
    assert proa.full([1], big, "int64").item() == big
    same(proa.full([2], 200, "uint8"), np.full(2, 200, np.uint8))


@pytest.mark.feature("L015")
def test_ranges() -> None:
    same(proa.arange(5), np.arange(5))
    same(proa.arange(1, 6, 2), np.arange(1, 6, 2))
    same(proa.arange(5, 0, -2), np.arange(5, 0, -2))
    same(proa.arange(0, 1, 0.25), np.arange(0, 1, 0.25).astype(np.float32))
    same(proa.arange(3, 3), np.arange(3, 3))
    same(proa.linspace(0, 1, 5), np.linspace(0, 1, 5).astype(np.float32))
    np.testing.assert_allclose(
        proa.logspace(0, 2, 3).numpy(), np.logspace(0, 2, 3), rtol=1e-6
    )
    with pytest.raises(InvalidArgumentError, match="step must not be 0"):
        proa.arange(0, 1, 0)


@pytest.mark.feature("L015")
def test_matrices() -> None:
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = proa.to_tensor(a)
    same(proa.eye(2, 3), np.eye(2, 3, dtype=np.float32))
    same(proa.tril(x, 1), np.tril(a, 1))
    same(proa.triu(x, -1), np.triu(a, -1))
    for diagonal in (2**63 - 1, -(2**63)):  # beyond every matrix
        want = a if diagonal > 0 else np.zeros_like(a)
        same(proa.tril(x, diagonal), want)
        same(proa.triu(x, -1 - diagonal), want)
    same(proa.diag(proa.to_tensor(a[0]), 1), np.diag(a[0], 1))
    same(proa.diag(x, 1), np.diag(a, 1))
    padded = proa.diag(proa.to_tensor(a[0, :2]), -1, padding_value=9)
    same(padded, np.array([[9, 9, 9], [0, 9, 9], [9, 1, 9]], np.float32))
    same(proa.diagflat(x[:2, :2], 0), np.diagflat(a[:2, :2]))
    first, second = proa.meshgrid(proa.arange(2), proa.arange(3))
    for ours, theirs in zip(
        (first, second), np.meshgrid(np.arange(2), np.arange(3), indexing="ij"),
        strict=True,
    ):  # fmt: skip
        same(ours, theirs)
    same(proa.tril_indices(3, 3, 0), np.stack(np.tril_indices(3)))


@pytest.mark.feature("L015")
@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_diag_embed_puts_the_last_axis_on_a_diagonal(offset: int) -> None:
    a = np.arange(1.0, 7, dtype=np.float32).reshape(2, 3)
    expected = np.stack([np.diag(row, offset) for row in a])
    same(proa.diag_embed(proa.to_tensor(a), offset), expected)
    moved = proa.diag_embed(proa.to_tensor(a), offset, dim1=0, dim2=2)
    same(moved, np.moveaxis(expected, 0, 1))


@pytest.mark.feature("L006")
def test_one_element_converts_to_python_numbers() -> None:
    assert float(proa.to_tensor(2.5)) == 2.5
    assert int(proa.to_tensor([3])) == 3
    assert [10, 20][proa.to_tensor(1)] == 20
    assert len(proa.zeros([4, 2])) == 4
    assert f"{proa.to_tensor(2.5):.2f}" == "2.50"


@pytest.mark.feature("L005")
def test_bool_of_a_tensor_is_its_value() -> None:
    x = proa.to_tensor(3.0)
    assert x > 2
    assert not (x < 2)
    assert not proa.to_tensor(0)


@pytest.mark.feature("L010", "L011")
def test_numpy_reads_tensors() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = proa.to_tensor(a)
    np.testing.assert_array_equal(np.asarray(x), a)
    np.testing.assert_array_equal(np.array(x), a)
    assert x.item(1, 2) == 5.0
    assert x.tolist() == a.tolist()
    with pytest.raises(ValueError):
        x.item()


def test_iteration_and_membership() -> None:
    x = proa.to_tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 9 not in x
    with pytest.raises(TypeError, match="0-d"):
        iter(proa.to_tensor(1))


@pytest.mark.feature("L007")
def test_clone_keeps_the_graph() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    (x.clone() * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3])


@pytest.mark.parametrize("shape", [[-1], [-1, 3], [2, -1, -1], [-5]])
def test_sizes_below_zero_are_refused(shape):
    for make in (proa.ones, proa.zeros, proa.rand, proa.randn, proa.empty):
        with pytest.raises(ValueError, match="size"):
            make(shape)
    with pytest.raises(ValueError, match="size"):
        proa.full(shape, 2.0)


@pytest.mark.parametrize("number", [0, -7, 2**63 - 1, True, 0.1, -np.inf, np.nan, 1j])
def test_to_tensor_takes_numbers_as_numpy_does(number: Any) -> None:
    x, kind = proa.to_tensor(number), np.asarray(number).dtype
    narrow = {"float64": "float32", "complex128": "complex64"}.get(kind.name, kind.name)
    assert x.shape == [] and x.dtype == narrow
    np.testing.assert_array_equal(x.numpy(), np.asarray(number).astype(narrow))


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**30])
def test_to_tensor_rejects_integers_that_overflow_int64(number: int) -> None:
    with pytest.raises(Error):
        proa.to_tensor(number)


def test_assign_resizes_its_output_to_the_source() -> None:
    out = proa.zeros([3, 3])
    proa.assign(np.array([[1, 1], [3, 4], [1, 3]]), out)
    same(out, np.array([[1, 1], [3, 4], [1, 3]]))
    resized = proa.zeros([2])
    proa.assign(np.array([1, 2]), resized)
    same(resized, np.array([1, 2], np.float32))
