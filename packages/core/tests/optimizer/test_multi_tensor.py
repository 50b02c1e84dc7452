"""Parameters of one setting are stepped by one call, with the bits of steps alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core

RNG = np.random.default_rng(0)
SHAPES = [(), (3,), (17,), (4, 5), (70, 300)]
START = [np.float32(RNG.standard_normal(s)) for s in SHAPES]
GRADS = [[np.float32(RNG.standard_normal(s)) for s in SHAPES] for _ in range(3)]

MAKERS: dict[str, Callable[..., Any]] = {
    "SGD": proa.optimizer.SGD,
    "Momentum": proa.optimizer.Momentum,
    "Adam": proa.optimizer.Adam,
    "AdamW": proa.optimizer.AdamW,
    "Adamax": proa.optimizer.Adamax,
    "Adagrad": proa.optimizer.Adagrad,
    "Adadelta": proa.optimizer.Adadelta,
    "RMSProp": proa.optimizer.RMSProp,
}


def parameters() -> list[Any]:
    results = []
    for a in START:
        p = proa.create_parameter(list(a.shape), "float32")
        p.set_value(a)
        results.append(p)
    return results


def take_steps(optimizers: list[Any], params: list[Any]) -> list[np.ndarray]:
    for grads in GRADS:
        for p, g in zip(params, grads, strict=True):
            p.grad = proa.to_tensor(g)
        for optimizer in optimizers:
            optimizer.step()
    return [p.numpy() for p in params]


@pytest.mark.parametrize("name", MAKERS)
def test_together_as_alone(name):
    def make(params):
        return MAKERS[name](learning_rate=0.1, parameters=params, weight_decay=0.01)

    params = parameters()
    together = take_steps([make(params)], params)
    params = parameters()
    alone = take_steps([make([p]) for p in params], params)
    for a, b, start in zip(together, alone, START, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, start)


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of parameters of each call."""
    seen: list[int] = []
    each = _core.each

    def counted(op: Any, *columns: Any, **attributes: Any) -> Any:
        seen.append(len(columns[0]))
        return each(op, *columns, **attributes)

    monkeypatch.setattr(_core, "each", counted)
    return seen


@pytest.mark.parametrize("name", MAKERS)
def test_a_step_is_one_call(name, lengths):
    params = parameters()
    take_steps([MAKERS[name](learning_rate=0.1, parameters=params)], params)
    assert lengths == [len(SHAPES)] * len(GRADS)


def test_other_rates_and_counts_are_other_calls(lengths):
    params = parameters()
    params[1].optimize_attr = {"learning_rate": 0.5}
    adam = proa.optimizer.Adam(0.1, parameters=params)
    params[0].grad = proa.to_tensor(GRADS[0][0])
    adam.step()
    assert lengths == [1]
    for p, g in zip(params, GRADS[1], strict=True):
        p.grad = proa.to_tensor(g)
    adam.step()  # the second of parameter 0; parameter 1 has half the rate
    assert sorted(lengths[1:]) == [1, 1, len(SHAPES) - 2]


def test_clipping_by_the_joint_norm_is_two_calls(lengths):
    params = parameters()
    clip = proa.nn.ClipGradByGlobalNorm(0.5)
    sgd = proa.optimizer.SGD(1.0, parameters=params, grad_clip=clip)
    for p, g in zip(params, GRADS[0], strict=True):
        p.grad = proa.to_tensor(g)
    sgd.step()
    assert lengths == [len(SHAPES)] * 2  # gradients scaled, steps taken
    norm = np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in GRADS[0]))
    for p, a, g in zip(params, START, GRADS[0], strict=True):
        np.testing.assert_allclose(p.numpy(), a - g * 0.5 / norm, rtol=1e-5, atol=1e-6)
