"""What a step of training is made of: nothing that it could do without."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.profiler import Profiler


def quiet(_: Profiler) -> None:
    """Writes no trace."""


def ops_of(function: Any) -> Counter[str]:
    """Names of the ops that the call runs, those of backward nodes included."""
    with Profiler(on_trace_ready=quiet, detail=0) as p:
        function()
    return Counter(e.name for e in p.profiler_result.events if e.kind == "op")


def python_calls(function: Any) -> list[str]:
    """Python functions that run below the call."""
    names: list[str] = []
    sys.setprofile(
        lambda frame, event, _: event == "call" and names.append(frame.f_code.co_name)
    )
    try:
        function()
    finally:
        sys.setprofile(None)
    return [n for n in names if n != "<lambda>"]


@pytest.mark.feature("L297", how="mechanism")
@pytest.mark.parametrize(
    ("kind", "op"),
    [
        (proa.optimizer.SGD, "sgd_"),
        (proa.optimizer.Momentum, "momentum_"),
        (proa.optimizer.Adam, "adam_"),
    ],
)
def test_an_optimizer_runs_one_op_for_each_parameter(kind, op):
    layer = nn.Linear(4, 4)
    step = kind(learning_rate=0.1, parameters=layer.parameters())

    def update() -> None:
        layer(proa.ones([2, 4])).sum().backward()
        before = ops_of(step.step)
        assert before[op] == 2
        names.append(before)
        step.clear_grad()

    names: list[Counter[str]] = []
    for _ in range(2):
        update()
    assert names[1] == {op: 2}  # the first step also makes the state


@pytest.mark.feature("L114", how="mechanism")
def test_momentum_decays_weights_within_its_op():
    decayed = proa.optimizer.Momentum(0.1, 0.9, [w := proa.ones([2])], weight_decay=0.5)
    w.stop_gradient = False
    for want in (1 - 0.1 * 1.5, 0.85 - 0.1 * (0.9 * 1.5 + 1 + 0.5 * 0.85)):
        w.sum().backward()
        ran = ops_of(decayed.step)
        decayed.clear_grad()
        np.testing.assert_allclose(w.numpy(), want, rtol=1e-6)
    assert ran == {"momentum_": 1}


@pytest.mark.feature("L298", how="mechanism")
def test_operators_and_ops_run_no_python():
    x = proa.ones([2])
    x.stop_gradient = False
    y = proa.ones([2])
    add = proa._core.ops.add
    for call in (lambda: x + y, lambda: -x * 2.0, lambda: add(x, y), lambda: x[0]):
        assert python_calls(call) == []
    z = (x * y).sum()
    assert python_calls(lambda: proa._core.backward([z], None, False, False)) == []


def test_a_linear_layer_is_one_op_and_backward_the_gradients_it_needs():
    layer = nn.Linear(4, 3)
    x = proa.ones([2, 4])
    assert ops_of(lambda: layer(x)) == {"linear": 1}
    y = layer(x)
    with Profiler(on_trace_ready=quiet) as p:
        proa.autograd.backward([y], [proa.ones([2, 3])])
    kernels = Counter(e.name for e in p.profiler_result.events if e.kind == "kernel")
    # Gradients of weight and bias; none of x, which takes no gradient.
    assert kernels["matmul"] == 0 and sum(kernels.values()) <= 3


@pytest.mark.feature("L042")
def test_backward_computes_only_gradients_that_somebody_wants():
    a, b = proa.ones([3, 3]), proa.ones([3, 3])
    a.stop_gradient = False
    y = proa.matmul(a, b)
    one_side = ops_of(lambda: y.backward(proa.ones([3, 3])))
    b.stop_gradient = False
    z = proa.matmul(a, b)
    both = ops_of(lambda: z.backward(proa.ones([3, 3])))
    assert one_side["matmul"] == 1 and both["matmul"] == 2
    # grad() walks only the way to its inputs.
    w = proa.exp(a)
    v = proa.tanh(w) + proa.matmul(b, b)
    found = ops_of(lambda: proa.grad([v.sum()], [w]))
    assert found["matmul"] == 0


def test_a_tensor_is_created_without_copying_existing_data():
    x = proa.ones([1000, 10])
    before = proa.device.memory_allocated()
    views = [proa.reshape(x, [10, 1000]), x[5:], proa.transpose(x, [1, 0]), x.detach()]
    assert proa.device.memory_allocated() - before < 4096
    assert len({v.data_ptr() for v in views}) == 2
