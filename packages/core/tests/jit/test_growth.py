"""Recording and planning a step takes work in proportion to the network."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn


def calls_to_record(layers: int) -> int:
    """How many functions the first call of a recorded step calls."""
    parts: list[Any] = []
    for _ in range(layers):
        parts += [nn.Linear(2, 2), nn.ReLU()]
    net = nn.Sequential(*parts)
    opt = proa.optimizer.Momentum(parameters=net.parameters())

    @proa.jit.to_static
    def step(x: proa.Tensor) -> proa.Tensor:
        loss = net(x).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    calls = 0

    def see(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    x = proa.to_tensor(np.ones((3, 2), np.float32))
    sys.setprofile(see)
    try:
        step(x)
    finally:
        sys.setprofile(None)
    return calls


def test_recording_a_step_takes_calls_in_proportion_to_the_layers() -> None:
    calls_to_record(2)  # what is done once
    few, many = calls_to_record(20), calls_to_record(80)
    assert many < 4.4 * few


@pytest.mark.parametrize("rows", [4, 8192])
def test_a_plan_of_thousands_of_buffers_gives_eager_bits(rows: int) -> None:
    """So many that places are found by time; with 8192 rows there are chains."""
    random = np.random.default_rng(3)
    count = 150 if rows > 4 else 600
    weights = [
        proa.to_tensor(random.standard_normal((4, 4)).astype(np.float32))
        for _ in range(count)
    ]
    for w in weights:
        w.stop_gradient = False

    def step(x: proa.Tensor) -> proa.Tensor:
        y = x
        for k, w in enumerate(weights):
            y = y + proa.tanh(proa.matmul(y, w)) * 0.1
            if k % 10 == 0:
                y = y / (1 + y.abs().max())
        loss = (y * y).sum()
        loss.backward()
        return loss

    x = proa.to_tensor(random.standard_normal((rows, 4)).astype(np.float32))
    wanted = [step(x).numpy()] + [w.grad.numpy() for w in weights]
    for w in weights:
        w.clear_gradient(False)
    recorded = proa.jit.to_static(step)
    found = [recorded(x).numpy()] + [w.grad.numpy() for w in weights]
    assert recorded.concrete_program is not None
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
