"""The backward graph is walked only where gradients are wanted."""

from __future__ import annotations

from typing import Any

import pytest

import proa
from proa.autograd import PyLayer

pytestmark = pytest.mark.feature("L042")


class Noted(PyLayer):
    """Doubles; notes that its backward ran."""

    ran: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: Any, name: str) -> Any:
        ctx.name = name
        return x * 2

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        Noted.ran.append(ctx.name)
        return dy * 2


def leaf(trained: bool = True) -> Any:
    return proa.to_tensor([1.0, 2.0], stop_gradient=not trained)


def test_branches_of_constants_are_not_recorded() -> None:
    Noted.ran.clear()
    a, b = leaf(), leaf(False)
    y = Noted.apply(a, "a") * Noted.apply(b, "b")
    y.sum().backward()
    assert Noted.ran == ["a"]
    assert b.grad is None


def test_partial_gradients_visit_only_paths_to_their_inputs() -> None:
    Noted.ran.clear()
    a, b = leaf(), leaf()
    y = Noted.apply(a, "a") + Noted.apply(b, "b")
    (g,) = proa.grad(y.sum(), [b])
    assert Noted.ran == ["b"]
    assert g.tolist() == [2, 2]
    assert a.grad is b.grad is None


def test_stop_gradient_prunes_the_backward_graph() -> None:
    Noted.ran.clear()
    a = leaf()
    inner = Noted.apply(a, "inner")
    y = inner.detach() * Noted.apply(a, "outer")
    y.sum().backward()
    assert Noted.ran == ["outer"]
    inner = Noted.apply(a, "inner")
    inner.stop_gradient = True
    (inner * a).sum().backward()
    assert Noted.ran == ["outer"]


def test_rules_skip_inputs_without_gradient() -> None:
    a, b = leaf(), leaf(False)
    y = proa.matmul(a.reshape([1, 2]), b.reshape([2, 1]))
    y.backward()
    assert a.grad.tolist() == [1, 2]
    assert b.grad is None
