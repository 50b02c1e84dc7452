"""Tensors that a recorded function reads but is not given: changes are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa.jit import to_static

X = np.array([1.0, 2.0], np.float32)


@pytest.fixture(params=[True, False], ids=["grad", "no_grad"], autouse=True)
def _grad_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with proa.set_grad_enabled(request.param):
        yield


def check(function: Callable[..., Any], *wants: Any, between: Any = None) -> None:
    """Recorded calls give these results; something happens after each."""
    for k, want in enumerate(wants):
        got = function(proa.to_tensor(X))
        np.testing.assert_array_equal(got.numpy(), np.asarray(want, np.float32))
        if between is not None:
            between(k)


def test_a_tensor_of_the_closure_may_change_between_calls() -> None:
    scale = proa.to_tensor([2.0, 2.0])
    recorded = to_static(lambda x: x * scale)
    check(recorded, 2 * X, 3 * X, 4 * X, between=lambda k: scale.fill_(3.0 + k))


def test_memory_shared_with_numpy_may_change_between_calls() -> None:
    scale = proa.to_tensor([2.0, 2.0])
    weight = proa.to_tensor([1.0, 1.0], stop_gradient=False)
    # What takes a gradient has other tensors as inputs, not as constants.
    step = to_static(lambda x: x * scale + 0 * weight)

    def write(k: int) -> None:
        scale.numpy()[:] = 3.0 + k

    with proa.enable_grad():
        check(step, 2 * X, 3 * X, 4 * X, between=write)


def test_a_tensor_created_in_a_call_may_change_after_it_was_read() -> None:
    def run(x: Any) -> Any:
        total = proa.zeros([2])
        first = x + total
        total.add_(proa.ones([2]))
        return 10 * first + total

    check(to_static(run), 10 * X + 1, 10 * X + 1)


class Lazy(proa.nn.Layer):
    """Makes a tensor in its first call and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([2])
        self.scale: Any = None

    def forward(self, x: Any) -> Any:
        if self.scale is None:
            self.scale = proa.ones([2])
        return x * self.scale + 0 * self.weight


def test_a_tensor_created_in_the_first_call_may_change_between_calls() -> None:
    layer = Lazy()
    layer.eval()
    recorded = to_static(layer)

    def change(k: int) -> None:
        layer.scale.fill_(5.0 + k)

    check(recorded, X, 5 * X, 6 * X, 7 * X, between=change)


def test_a_view_taken_in_a_call_sees_changes_of_its_base() -> None:
    table = proa.to_tensor([[2.0, 2.0], [3.0, 3.0]])
    recorded = to_static(lambda x: x * table[1])
    check(recorded, 3 * X, 5 * X, 6 * X, between=lambda k: table.fill_(5.0 + k))


def test_a_reference_elsewhere_changes_no_result() -> None:
    references: list[Any] = []

    def run(x: Any) -> Any:
        total = proa.zeros([2])
        references.append(total)
        y = x + total
        total.add_(proa.ones([2]))
        return y + total

    check(to_static(run), X + 1, X + 1)


def test_a_branch_restores_what_it_changed_whatever_refers_to_it() -> None:
    def run(x: Any) -> Any:
        def inner(y: Any) -> Any:
            if x.sum() > 0:
                y.add_(proa.ones([2]))  # the function around has no other name for it
            return y * 2

        return inner(x * 1)

    check(to_static(run), 2 * (X + 1), 2 * (X + 1))


class Scaled(proa.nn.Layer):
    """Scales; in training mode by ten times more."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        initial = proa.nn.initializer.Constant(scale)
        self.weight = self.create_parameter([2], default_initializer=initial)

    def forward(self, x: Any) -> Any:
        return x * self.weight * (10 if self.training else 1)


def test_the_mode_of_a_layer_within_may_change_between_calls() -> None:
    layer = proa.nn.Sequential(Scaled(2.0))
    layer.eval()

    def change(k: int) -> None:
        layer[0].training = k % 2 == 0

    check(to_static(lambda x: layer(x)), 2 * X, 20 * X, 2 * X, between=change)
    layer.eval()
    check(to_static(layer), 2 * X, 20 * X, 2 * X, between=change)


def test_a_parameter_may_be_replaced_between_calls() -> None:
    layer = Scaled(2.0)
    layer.eval()

    def change(k: int) -> None:
        layer.weight = Scaled(3.0 + k).weight

    check(to_static(layer), 2 * X, 3 * X, 4 * X, between=change)
