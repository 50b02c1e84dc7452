"""`_core.each`: one call of an operator for every row of lists of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import _core
from proa._core import ops

ARRAYS = [np.float32([1, 2, 3]), np.float32([[4, 5]]), np.float32(6)]


def tensors() -> list[proa.Tensor]:
    return [proa.to_tensor(a) for a in ARRAYS]


def test_each_gives_the_results_in_order():
    for got, a in zip(_core.each(ops.add, tensors(), tensors()), ARRAYS, strict=True):
        np.testing.assert_array_equal(got.numpy(), a + a)


def test_a_tensor_alone_serves_all_rows():
    factor = proa.to_tensor(np.float32(2))
    for got, a in zip(_core.each(ops.mul, tensors(), factor), ARRAYS, strict=True):
        np.testing.assert_array_equal(got.numpy(), 2 * a)


def test_each_works_in_place_and_takes_attributes():
    params = tensors()
    assert _core.each(ops.sgd_, params, tensors(), lr=0.5) == []
    for p, a in zip(params, ARRAYS, strict=True):
        np.testing.assert_array_equal(p.numpy(), a / 2)


def test_each_is_differentiable():
    x = [proa.to_tensor(a, stop_gradient=False) for a in ARRAYS]
    for y in _core.each(ops.square, x):
        y.sum().backward()
    for z, a in zip(x, ARRAYS, strict=True):
        np.testing.assert_array_equal(z.grad.numpy(), 2 * a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((len, []), "must be an operator"),
        ((ops.add, []), "a list for each of its 2 arrays, got 1"),
        ((ops.add, tensors(), tensors()[:2]), "one length, got 3 and 2"),
        ((ops.add, [1.0], [2.0]), "takes Tensors, got float"),
        ((ops.concat, tensors()), "a list for each"),
        ((ops.topk, tensors()), "must have one output"),
    ],
)
def test_each_names_what_it_rejects(arguments, message):
    with pytest.raises(TypeError, match=message):
        _core.each(*arguments)
