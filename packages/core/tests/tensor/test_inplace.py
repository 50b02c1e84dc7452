"""Writing in place: memory, versions, dtypes, and what backward says of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import PreconditionNotMetError

OPERATORS = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv,
    operator.ifloordiv, operator.imod, operator.ipow,
]  # fmt: skip
OTHERS: list[Any] = [2, 1.5, np.float32(2), [[3.0], [2.0]], [1.0, 2.0, 4.0]]


def other_of(value: Any) -> Any:
    return proa.to_tensor(value) if isinstance(value, list) else value


@pytest.mark.feature("L032")
@pytest.mark.parametrize("operate", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_operators_with_assignment_keep_the_memory(
    operate: Callable[[Any, Any], Any], other: Any
):
    a = np.array([[4.0, 9.0, 1.0], [3.0, 5.0, 7.0]], "float32")
    x = proa.to_tensor(a)
    view, address, version = x[0], x.data_ptr(), x.inplace_version
    y = operate(x, other_of(other))
    assert y is x and x.data_ptr() == address and x.inplace_version == version + 1
    want = operate(a, np.asarray(other, "float32"))
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(view.numpy(), want[0], rtol=1e-6)


def test_results_that_do_not_fit_are_new_tensors():
    x = whole = proa.to_tensor([1, 2])
    x += 1.5
    assert x.tolist() == [2.5, 3.5] and whole.tolist() == [1, 2]
    x = row = proa.to_tensor([1.0, 2.0])
    x += proa.ones([2, 2])
    assert x.shape == [2, 2] and row.shape == [2]
    x = whole
    x /= 2
    assert x.dtype == "float32" and whole.tolist() == [1, 2]
    x = leaf = proa.to_tensor([1.0], stop_gradient=False)
    x *= 3
    assert leaf.tolist() == [1.0]
    x.backward()
    assert leaf.grad.tolist() == [3.0]


def test_a_leaf_is_written_where_nothing_is_recorded():
    w = proa.to_tensor([1.0], stop_gradient=False)
    address = w.data_ptr()
    with proa.no_grad():
        w -= 0.5
    assert w.data_ptr() == address and w.tolist() == [0.5]


@pytest.mark.feature("L033")
def test_a_saved_tensor_that_changed_is_an_error():
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x * 2
    z = (y * y).sum()
    y += 1
    with pytest.raises(PreconditionNotMetError, match="in place"):
        z.backward()


def test_a_change_through_a_view_is_found_too():
    x = proa.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    y = x * 2
    row = y[0]
    z = (y * y).sum()
    row.zero_()
    with pytest.raises(PreconditionNotMetError):
        z.backward()


def test_gradients_flow_through_what_was_written():
    x = proa.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
    y = x * 1
    y += x
    y *= proa.to_tensor([1.0, 10.0, 100.0])
    y[0] = x[2] * 5
    y.sum().backward()
    assert x.grad.tolist() == [0, 20, 205]


def test_in_place_steps_record():
    def run(x: Any) -> Any:
        y = x * 2
        y += x
        y -= 1
        y *= proa.to_tensor([1.0, 2.0])
        return y

    x = proa.to_tensor([1.0, 2.0])
    static = proa.jit.to_static(run)
    with proa.no_grad():
        assert static(x).tolist() == run(x).tolist() == [2, 10]


@pytest.mark.parametrize("name", ["scatter_", "put_along_axis_", "elu_", "softmax_"])
def test_a_gradient_that_needs_the_old_value_is_right(name):
    start = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    updates = proa.to_tensor(np.array([[1.0, 2.0, 3.0]]))
    index = proa.to_tensor(np.array([1]))
    changes = {
        "scatter_": lambda y: y.scatter_(index, updates, False),
        "put_along_axis_": lambda y: y.put_along_axis_(
            proa.to_tensor(np.array([[1, 0, 1]])), updates, 0, "add"
        ),
        "elu_": proa.nn.functional.elu_,
        "softmax_": proa.nn.functional.softmax_,
    }

    def loss(values):
        x = proa.to_tensor(values, stop_gradient=False)
        y = x * 2.0
        return x, changes[name](y).square().sum()

    x, total = loss(start)
    total.backward()
    step = 1e-6
    for place in np.ndindex(start.shape):
        moved = start.copy()
        moved[place] += step
        above = float(loss(moved)[1])
        moved[place] -= 2 * step
        slope = (above - float(loss(moved)[1])) / (2 * step)
        assert x.grad.numpy()[place] == pytest.approx(slope, rel=1e-5, abs=1e-6)
