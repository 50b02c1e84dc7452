"""`to_static` on methods of classes: copies, lives, switches."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidTypeError
from proa.jit import InputSpec, ProgramTranslator, enable_to_static, to_static

X = np.random.default_rng(3).normal(size=(4, 3)).astype("float32")


class Net(proa.nn.Layer):
    """Two static methods; counts how often Python runs the first."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = proa.nn.Linear(3, 2)
        self.calls: list[bool] = []  # whether they were recorded

    @to_static(input_spec=[InputSpec([None, 3], "float32")])
    def forward(self, x: Any) -> Any:
        self.calls.append(x._is_symbolic)
        return self.fc(x)

    @to_static
    def double(self, x: Any) -> Any:
        return self.fc(x) * 2


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    yield
    enable_to_static(True)


def of(net: Any, x: np.ndarray = X) -> np.ndarray:
    """What the linear layer gives, by NumPy."""
    return np.asarray(x @ net.fc.weight.numpy() + net.fc.bias.numpy())


@pytest.mark.parametrize("training", [False, True])
def test_methods_record_once_for_each_instance(training: bool) -> None:
    nets = [Net(), Net()]
    for net in nets:
        net.train() if training else net.eval()
        for _ in range(3):
            found = net(proa.to_tensor(X))
            np.testing.assert_allclose(found.numpy(), of(net), rtol=1e-5, atol=1e-6)
        twice = net.double(proa.to_tensor(X)).numpy()
        np.testing.assert_allclose(twice, 2 * of(net), rtol=1e-5, atol=1e-6)
    assert [len(net.calls) for net in nets] == [1, 1]


@pytest.mark.parametrize("make", [Net, lambda: to_static(Net())])
def test_a_copy_computes_with_its_own_weights(make: Any) -> None:
    net = make()
    x = proa.to_tensor(X)
    before = net(x).numpy()
    clone = copy.deepcopy(net)
    clone.fc.weight.set_value(clone.fc.weight * 0)
    np.testing.assert_allclose(clone(x).numpy(), of(clone), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(net(x).numpy(), before)
    clone(x).sum().backward()
    assert net.fc.weight.grad is None and clone.fc.weight.grad is not None


def test_an_instance_is_freed_with_what_was_recorded_of_it() -> None:
    net = Net()
    net(proa.to_tensor(X))
    known = weakref.ref(net)
    del net
    for _ in range(3):  # the recorder's tensors hold it until they are collected
        gc.collect()
    assert known() is None


@pytest.mark.parametrize("switch", [enable_to_static, ProgramTranslator().enable])
def test_the_switch_lets_functions_run_op_by_op(switch: Any) -> None:
    net = Net()
    switch(False)
    for _ in range(3):
        net(proa.to_tensor(X))
    assert net.calls == [False] * 3
    switch(True)
    for _ in range(3):
        net(proa.to_tensor(X))
    assert net.calls == [False] * 3 + [True]
    with pytest.raises(InvalidTypeError, match="must be a bool, got 'no'"):
        switch("no")
    assert ProgramTranslator.get_instance() is not None


def test_summary_and_flops_of_static_networks_are_those_of_the_network() -> None:
    plain = proa.nn.Sequential(proa.nn.Linear(3, 2), proa.nn.ReLU())
    static = to_static(
        copy.deepcopy(plain), input_spec=[InputSpec([None, 3], "float32")]
    )
    assert proa.summary(static, (5, 3)) == proa.summary(plain, (5, 3))
    assert proa.flops(static, [5, 3]) == proa.flops(plain, [5, 3])
    assert static(proa.to_tensor(X)).shape == [4, 2]
