"""Recorded functions whose gradients are propagated, or flow through loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.jit import to_static


@pytest.mark.parametrize("takes", [True, False])
def test_results_whose_gradients_take_no_computation(takes: bool):
    class Handing(proa.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.create_parameter([3])

        def forward(self, x: Any, y: Any) -> Any:
            return x, y * 2, self.weight

    layer = Handing()
    static = to_static(layer)
    found = []
    for k in range(3):
        x = proa.full([3], k, dtype="float32")
        x.stop_gradient = not takes
        found.append(static(x, proa.full([3], k + 1, dtype="float32")))
        np.testing.assert_array_equal(found[-1][1].numpy(), np.full(3, 2 * (k + 1)))
        layer.clear_gradients()
        (found[-1][0].sum() + 3 * found[-1][2].sum()).backward()
        assert (x.grad is not None) == takes
        np.testing.assert_array_equal(layer.weight.grad.numpy(), np.full(3, 3.0))
        if takes:
            np.testing.assert_array_equal(x.grad.numpy(), np.ones(3))
        del x
        [proa.full([3], -9.0) for _ in range(4)]  # reuses released memory
    for k, (x, twice, weight) in enumerate(found):
        np.testing.assert_array_equal(x.numpy(), np.full(3, k))
        np.testing.assert_array_equal(twice.numpy(), np.full(3, 2 * (k + 1)))
        np.testing.assert_array_equal(weight.numpy(), layer.weight.numpy())


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_gradients_of_what_a_loop_alone_reads(rounds: int):
    @to_static
    def powers(x: Any, n: Any) -> Any:
        for _ in range(n):
            x = x * 2
        return x

    x = proa.to_tensor([1.0, -1.0], stop_gradient=False)
    y = powers(x, proa.to_tensor(rounds))
    assert not y.stop_gradient
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(2, 2.0**rounds))
