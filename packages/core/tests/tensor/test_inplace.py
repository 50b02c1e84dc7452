"""Writing in place: memory, versions, dtypes, and what backward says of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError

OPERATORS = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv,
    operator.ifloordiv, operator.imod, operator.ipow,
]  # fmt: skip


@pytest.mark.parametrize("operate", OPERATORS, ids=lambda f: f.__name__)
def test_operators_with_assignment_make_a_new_tensor(operate: Callable[..., Any]):
    """As in Paddle, so that `y = relu(x); y += z` trains."""
    a = np.array([[4.0, 9.0, 1.0], [3.0, 5.0, 7.0]], "float32")
    x = proa.to_tensor(a)
    y = operate(x, 2)
    assert y is not x
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_allclose(y.numpy(), operate(a.copy(), 2), rtol=1e-6)


def test_a_residual_may_be_added_by_assignment():
    x = proa.to_tensor([-1.0, 2.0], stop_gradient=False)
    y = proa.nn.functional.sigmoid(x)
    y += x
    y.sum().backward()
    s = 1 / (1 + np.exp(-np.array([-1.0, 2.0])))
    np.testing.assert_allclose(x.grad.numpy(), s * (1 - s) + 1, rtol=1e-6)


@pytest.mark.feature("L032")
@pytest.mark.parametrize(
    ("method", "operate"),
    [
        ("add_", operator.add),
        ("subtract_", operator.sub),
        ("multiply_", operator.mul),
        ("divide_", operator.truediv),
    ],
)
def test_methods_write_into_the_memory(method: str, operate: Callable[..., Any]):
    a = np.array([[4.0, 9.0, 1.0], [3.0, 5.0, 7.0]], "float32")
    other = np.array([1.0, 2.0, 4.0], "float32")
    x = proa.to_tensor(a)
    view, address, version = x[0], x.data_ptr(), x.inplace_version
    y = getattr(x, method)(proa.to_tensor(other))
    assert y is x and x.data_ptr() == address and x.inplace_version == version + 1
    np.testing.assert_allclose(x.numpy(), operate(a, other), rtol=1e-6)
    np.testing.assert_allclose(view.numpy(), operate(a, other)[0], rtol=1e-6)


def test_a_leaf_is_written_where_nothing_is_recorded():
    w = proa.to_tensor([1.0], stop_gradient=False)
    address = w.data_ptr()
    with proa.no_grad():
        w.subtract_(proa.to_tensor([0.5]))
    assert w.data_ptr() == address and w.tolist() == [0.5]
    with pytest.raises(InvalidArgumentError, match="leaf"):
        w.subtract_(proa.to_tensor([0.5]))


@pytest.mark.feature("L033")
def test_a_view_is_another_description_of_the_same_memory():
    x = proa.to_tensor(np.arange(6, dtype="float32"))
    y = x.reshape([2, 3])
    assert y.data_ptr() == x.data_ptr()
    y[1].zero_()
    assert x.tolist() == [0, 1, 2, 0, 0, 0]


def test_a_saved_tensor_that_changed_is_an_error():
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x * 2
    z = (y * y).sum()
    y.add_(proa.to_tensor([1.0, 1.0]))
    with pytest.raises(PreconditionNotMetError, match="in place"):
        z.backward()


def test_a_change_through_a_view_is_found_too():
    x = proa.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    y = x * 2
    row = y[0]
    z = (y * y).sum()
    with proa.no_grad():
        row.zero_()
    with pytest.raises(PreconditionNotMetError):
        z.backward()


def test_gradients_flow_through_what_was_written():
    x = proa.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
    y = x * 1
    y.add_(x)
    y.multiply_(proa.to_tensor([1.0, 10.0, 100.0]))
    y[0] = x[2] * 5
    y.sum().backward()
    assert x.grad.tolist() == [0, 20, 205]


def test_in_place_steps_record():
    def run(x: Any) -> Any:
        y = x * 2
        y.add_(x)
        y -= 1
        y.multiply_(proa.to_tensor([1.0, 2.0]))
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


FORMS: dict[str, Callable[[proa.Tensor], object]] = {
    "fill_": lambda x: x.fill_(2.0),
    "zero_": lambda x: x.zero_(),
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "reshape_": lambda x: x.reshape_([3, 2]),
    "flatten_": lambda x: x.flatten_(),
    "squeeze_": lambda x: x.squeeze_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "scatter_": lambda x: x.scatter_(proa.to_tensor([0]), proa.ones([1, 3]), False),
    "put_along_axis_": lambda x: x.put_along_axis_(
        proa.to_tensor([[0]]), proa.ones([1, 1]), 0, reduce="add"
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_leaf_that_requires_a_gradient_is_changed_under_no_grad_alone(name: str):
    x = proa.to_tensor(np.ones((2, 3), "float32"), stop_gradient=False)
    with pytest.raises(ValueError, match=rf"\[{name}\] .*outside no_grad.*\(2, 3\)"):
        FORMS[name](x)
    np.testing.assert_array_equal(x.numpy(), np.ones((2, 3)))
    with proa.no_grad():
        FORMS[name](x)


@pytest.mark.parametrize("name", ["fill_", "zero_", "uniform_", "normal_"])
def test_what_is_overwritten_has_a_gradient_of_zero(name: str):
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x * 3
    view = y.detach()[0]
    FORMS[name](y)
    assert float(view) == float(y[0])
    (y.sum() + x[0]).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0])
