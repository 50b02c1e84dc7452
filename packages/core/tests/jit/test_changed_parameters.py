"""Parameters that a recorded step changes in place go on to take gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.jit import to_static

RATE = 0.1


def clip(w: Any) -> None:
    w.clip_(0.0, 0.9)


def set_value(w: Any) -> None:
    w.set_value(proa.clip(w, 0.0, 0.9))


def stay(w: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "of"),
    [
        (stay, lambda w: w),
        (clip, lambda w: np.clip(w, 0, 0.9)),
        (set_value, lambda w: np.clip(w, 0, 0.9)),
    ],
)
def test_two_steps_with_a_change_between(
    change: Callable[[Any], None], of: Callable[[np.ndarray], np.ndarray]
) -> None:
    first = np.array([1.0, 0.5, 2.0], np.float32)
    w = proa.to_tensor(first, stop_gradient=False)
    opt = proa.optimizer.SGD(RATE, [w])

    @to_static
    def steps(x: Any) -> None:
        for k in (1, 2):
            (w * w * x).sum().backward()
            opt.step()
            opt.clear_grad()
            if k == 1:
                with proa.no_grad():
                    change(w)

    x = np.array([1.0, 2.0, 0.5], np.float32)
    want = first.astype(np.float64)
    for _ in range(2):
        steps(proa.to_tensor(x))
        want = of(want - RATE * 2 * want * x)
        want = want - RATE * 2 * want * x
    np.testing.assert_allclose(w.numpy(), want, rtol=1e-5)
    assert not w.stop_gradient


def test_a_change_between_forward_and_backward() -> None:
    w = proa.to_tensor(np.ones(3, np.float32), stop_gradient=False)

    @to_static
    def run(x: Any) -> None:
        y = (w * x).sum()
        with proa.no_grad():
            w.add_(proa.ones([3]))
        y.backward()

    run(proa.full([3], 5.0))
    np.testing.assert_array_equal(w.grad.numpy(), np.full(3, 5.0, np.float32))
    np.testing.assert_array_equal(w.numpy(), np.full(3, 2.0, np.float32))
