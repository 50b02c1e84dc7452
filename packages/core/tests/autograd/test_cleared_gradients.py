"""Gradients that were cleared: zeros that cost nothing until somebody reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import device, nn, optimizer
from proa.jit import to_static

CLEARS: dict[str, Callable[[Any, Any], Any]] = {
    "tensor": lambda layer, opt: [p.clear_grad() for p in layer.parameters()],
    "gradient": lambda layer, opt: [p.clear_gradient() for p in layer.parameters()],
    "layer": lambda layer, opt: layer.clear_gradients(),
    "optimizer": lambda layer, opt: opt.clear_grad(),
}


@pytest.mark.feature("L048")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("by", CLEARS)
def test_a_cleared_gradient_is_zeros_that_the_next_one_is_added_to(
    by: str, dtype: str
) -> None:
    layer = nn.Linear(2, 3).to(dtype=dtype)
    opt = optimizer.SGD(0.1, layer.parameters())
    x = proa.ones([4, 2], dtype)
    for read in (False, True):
        layer(x).sum().backward()
        CLEARS[by](layer, opt)
        if read:
            assert layer.weight.grad.tolist() == [[0, 0, 0]] * 2
            assert layer.weight.grad.dtype == dtype and layer.weight.grad.stop_gradient
        layer(x).sum().backward()
        assert layer.weight.grad.tolist() == [[4, 4, 4]] * 2
        assert layer.bias.grad.tolist() == [4, 4, 4]
        CLEARS[by](layer, opt)


def test_without_a_gradient_there_is_none_to_clear() -> None:
    layer = nn.Linear(2, 3)
    opt = optimizer.SGD(0.1, layer.parameters())
    for clear in CLEARS.values():
        clear(layer, opt)
        assert layer.weight.grad is None
    layer(proa.ones([1, 2])).sum().backward()
    opt.clear_grad()
    opt.clear_grad(set_to_zero=False)
    assert layer.weight.grad is None and layer.weight.gradient() is None
    layer.weight.grad = proa.ones([2, 3])
    layer.weight.clear_gradient(set_to_zero=False)
    assert layer.weight.grad is None
    with pytest.raises(TypeError, match="expected a bool, set_to_zero"):
        layer.weight.clear_grad(zero=True)


def test_zeros_have_no_memory_until_they_are_read() -> None:
    x = proa.ones([1 << 18])  # 1 MB
    x.stop_gradient = False
    before = device.memory_allocated()
    (x * 2).sum().backward()
    assert device.memory_allocated() - before > 1 << 19
    x.clear_grad()
    assert device.memory_allocated() - before < 1 << 19
    assert x.grad.sum().item() == 0


@pytest.mark.parametrize("recorded", [False, True])
def test_a_step_without_a_gradient_equals_one_with_zeros(recorded: bool) -> None:
    """Momentum and decay go on; a parameter that never had a gradient stays."""
    used, seldom, never = (
        proa.create_parameter(
            [2], "float32", default_initializer=nn.initializer.Constant(1.0)
        )
        for _ in range(3)
    )
    opt = optimizer.Momentum(0.1, 0.9, [used, seldom, never], weight_decay=0.01)

    def step(x: Any, both: bool) -> Any:
        loss = (used * x).sum()
        if both:
            loss = loss + (seldom * x).sum()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    run = to_static(step) if recorded else step
    want, velocity = np.ones(2), np.zeros(2)
    for both in (False, False, True, False, False, True, False):
        run(proa.ones([2]), both)
        if both or velocity.any():
            velocity = 0.9 * velocity + (1.0 if both else 0.0) + 0.01 * want
            want = want - 0.1 * velocity
        np.testing.assert_allclose(seldom.numpy(), want, rtol=1e-6)
        assert never.tolist() == [1, 1] and never.grad is None
        assert used.grad.tolist() == [0, 0]


def test_a_recorded_step_is_not_recorded_anew_when_gradients_were_cleared() -> None:
    calls: list[int] = []
    layer = nn.Linear(2, 1, bias_attr=False)
    layer.weight.set_value(proa.zeros([2, 1]))
    opt = optimizer.SGD(1.0, layer.parameters())

    @to_static
    def step(x: Any) -> Any:
        calls.append(1)
        loss = layer(x).sum()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    x = proa.ones([1, 2])
    assert layer.weight.grad is None
    for count in range(1, 4):
        step(x)
        assert layer.weight.tolist() == [[-count]] * 2
    assert len(calls) == 1
    assert layer.weight.grad.tolist() == [[0], [0]]  # which now has memory
    step(x)
    layer(x).sum().backward()
    step(x)  # gradients of 2
    assert layer.weight.tolist() == [[-6]] * 2
    opt.clear_grad(set_to_zero=False)
    step(x)
    assert layer.weight.tolist() == [[-7]] * 2


@pytest.mark.parametrize("to_zero", [True, False])
def test_a_recorded_step_leaves_what_the_function_leaves(to_zero: bool) -> None:
    w = proa.create_parameter([2], "float32")

    @to_static
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        seen = w.grad + 0
        w.clear_grad(to_zero)
        return seen if not to_zero else seen + w.grad  # which reads the zeros

    for first in (None, True, False):
        if first is not None:
            (w * 3).sum().backward()
            w.clear_grad(first)
        assert step(proa.ones([2])).tolist() == [1, 1]
        if to_zero:
            assert w.grad.tolist() == [0, 0]
        else:
            assert w.grad is None
