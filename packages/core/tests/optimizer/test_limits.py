"""What optimizers and row-sparse gradients do with arrays that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, optimizer
from proa.errors import Error

MAKERS: list[Callable[[Any], Any]] = [
    lambda p: optimizer.SGD(0.1, p),
    lambda p: optimizer.Momentum(0.1, parameters=p),
    lambda p: optimizer.Adam(0.1, parameters=p),
    lambda p: optimizer.AdamW(0.1, parameters=p),
    lambda p: optimizer.Adagrad(0.1, parameters=p),
    lambda p: optimizer.Adamax(0.1, parameters=p),
    lambda p: optimizer.RMSProp(0.1, parameters=p),
    lambda p: optimizer.Adadelta(0.1, parameters=p),
    lambda p: optimizer.Lamb(0.1, parameters=p),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("shape", [[3], [2, 3, 1], [], [3, 2], [0, 3]])
def test_gradients_of_another_shape_are_refused(make: Any, shape: list[int]) -> None:
    p = proa.create_parameter([2, 3], "float32")
    before = p.numpy().copy()
    p.grad = proa.ones(shape)
    with pytest.raises(Error):
        make([p]).step()
    np.testing.assert_array_equal(p.numpy(), before)


@pytest.mark.parametrize("make", MAKERS)
def test_gradients_that_are_no_floats_are_refused(make: Any) -> None:
    p = proa.create_parameter([2], "float32")
    p.grad = proa.ones([2], "int64")
    with pytest.raises(Error):
        make([p]).step()


@pytest.mark.parametrize("shape", [[0], [0, 4], [1], []])
@pytest.mark.parametrize("make", MAKERS)
def test_small_and_empty_parameters(make: Any, shape: list[int]) -> None:
    p = proa.zeros(shape)
    p.stop_gradient = False
    p.grad = proa.ones(shape)
    make([p]).step()
    assert np.isfinite(p.numpy()).all()
    assert (p.numpy() < 0).all()


@pytest.mark.parametrize(
    ("rows", "values", "height"),
    [
        ([0, 1], [[1.0]], 4),
        ([[0]], [[1.0]], 4),
        ([0], 1.0, 4),
        ([0.5], [[1.0]], 4),
        ([0], [[1.0]], -1),
    ],
)
def test_row_sparse_parts_must_fit(rows: Any, values: Any, height: int) -> None:
    with pytest.raises(Error, match="row_sparse"):
        _core.row_sparse(proa.to_tensor(rows), proa.to_tensor(values), height)


@pytest.mark.parametrize("row", [4, -5, 2**40])
def test_rows_outside_the_table_are_rejected(row: int) -> None:
    x = _core.row_sparse(proa.to_tensor([row]), proa.ones([1, 2]), 4)
    with pytest.raises(Error, match="index must be within"):
        x.numpy()
    p = proa.create_parameter([4, 2], "float32")
    before = p.numpy().copy()
    p.grad = x
    with pytest.raises(Error):
        optimizer.SGD(0.1, [p]).step()
    np.testing.assert_array_equal(p.numpy(), before)


def test_row_sparse_gradients_of_another_table_are_refused() -> None:
    p = proa.create_parameter([4, 2], "float32")
    p.grad = _core.row_sparse(proa.to_tensor([0]), proa.ones([1, 3]), 4)
    with pytest.raises(Error):
        optimizer.SGD(0.1, [p]).step()
