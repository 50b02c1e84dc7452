"""Functions called from recorded functions are converted too, as far as they are the
user's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import UnimplementedError
from proa.jit import InputSpec, load, not_to_static, save, to_static

from .equivalence import agree, assert_equal

INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]
BRANCH = {"branch"}


def signed(x: Any, *, up: Any = 1, **more: Any) -> Any:
    if x.sum() > 0:
        return x + up + more.get("extra", 0)
    return x - up


def calls_another(x: Any) -> Any:
    return signed(x) * signed(x - 3, up=2, extra=0.5)


def recursive(x: Any, depth: int = 3) -> Any:
    if depth == 0:
        return x
    if x.sum() > 2:
        return recursive(x - 1, depth - 1)
    return recursive(x + 2, depth - 1)


def nested_function(x: Any) -> Any:
    offset = 1

    def inner(y: Any) -> Any:
        nonlocal offset
        offset += 1
        if y.sum() > 0:
            return y + offset
        return y - offset

    return inner(x) + inner(-x) + offset


def partial_and_map(x: Any) -> Any:
    up = functools.partial(signed, up=4)
    return up(x) + sum(signed(part) for part in (x, -x))


@proa.no_grad()
def without_tape(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return x * 3


def twice(function: Any) -> Any:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        first = function(*args, **kwargs)
        return first + function(*args, **kwargs)

    return called


@twice
@proa.no_grad()
def decorated(x: Any) -> Any:
    while x.sum() < 20:
        x = x + 5
    return x


def calls_decorated(x: Any) -> Any:
    return without_tape(x) + decorated(x)


@to_static
def static_inner(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


def calls_static(x: Any) -> Any:
    return static_inner(x) + 1


class Callable:
    def __init__(self, by: float) -> None:
        self.__by = by

    def __call__(self, x: Any) -> Any:
        if x.max() > 5:
            return x * self.__by
        return x

    @classmethod
    def built(cls, x: Any) -> Any:
        return cls(2.0)(x) if x.min() > 0 else cls(3.0)(x)

    @staticmethod
    def plain(x: Any) -> Any:
        return -x if x.min() > 0 else x


def calls_objects(x: Any) -> Any:
    return Callable(2.0)(x) + Callable.built(x) + Callable.plain(x)


FUNCTIONS = [
    calls_another, recursive, nested_function, partial_and_map, calls_decorated,
    calls_static, calls_objects,
]  # fmt: skip


@pytest.mark.feature("L183")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_that_are_called_are_converted(function: Any):
    agree(function, INPUTS, flow=BRANCH)


@pytest.mark.feature("L186")
def test_keywords_of_a_recorded_function():
    static = to_static(signed)
    for a in INPUTS:
        x, up = proa.to_tensor(a), proa.to_tensor(2.0)
        assert_equal(static(x, up=up, extra=x), signed(x, up=up, extra=x))
        assert_equal(static(x, up=3, extra=4), signed(x, up=3, extra=4))

    def passes(x: Any, **kwargs: Any) -> Any:
        if x.sum() > 0:
            kwargs["up"] = kwargs.pop("up") + 1
        return signed(x, **kwargs)

    static = to_static(passes)
    for a in INPUTS:
        x = proa.to_tensor(a)
        assert_equal(static(x, up=x, extra=1), passes(x, up=x, extra=1))


class Base(nn.Layer):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else x * 2


class Gate(Base):
    """Chooses by what it computes; calls its base, itself and its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.__limit = 0.5

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        if y.mean() > self.__limit:
            y = super().forward(y) + 1
        else:
            y = self.clipped(y)
        return y

    def clipped(self, y: Any) -> Any:
        steps = 0
        while y.abs().max() > 1:
            y = y * 0.5
            steps += 1
        return y + steps


def gates() -> nn.Layer:
    proa.seed(4)
    net = nn.Sequential(Gate(), nn.ReLU(), Gate())
    net.eval()
    return net


@pytest.mark.feature("L183")
def test_layers_and_their_parts_are_converted(tmp_path: Any):
    net, spec = gates(), [InputSpec([None, 3])]
    inputs = [proa.to_tensor(a.reshape(1, 3) * k) for a in INPUTS for k in (0.1, 2.0)]
    want = [net(x) for x in inputs]
    save(net, str(tmp_path / "net"), spec)
    loaded = load(str(tmp_path / "net"))
    static = to_static(net, input_spec=spec)
    for x, y in zip(inputs, want, strict=True):
        with proa.no_grad():
            assert_equal(static(x), y)
        assert_equal(loaded(x), y)
    assert not any("forward" in vars(part) for part in net.sublayers())


@pytest.mark.feature("L183")
def test_a_layer_with_control_flow_trains_as_it_does_without_to_static():
    losses = []
    for wrap in (lambda net: net, to_static):
        net = wrap(gates())
        net.train()
        optimizer = proa.optimizer.SGD(0.05, parameters=net.parameters())
        losses.append([])
        for a in INPUTS * 2:
            loss = (net(proa.to_tensor(a.reshape(1, 3))) ** 2).sum()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_what_is_not_converted():
    def generator(x: Any) -> Any:
        yield x
        if x.sum() > 0:
            yield x * 2

    @not_to_static
    def marked(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    namespace: dict[str, Any] = {}
    exec("def no_source(x):\n    return x if x.sum() > 0 else -x", namespace)
    for function in (
        marked,
        namespace["no_source"],
        lambda x: x if x.sum() > 0 else -x,
        lambda x: list(generator(x)),
    ):
        recorded = to_static(lambda x, function=function: function(x))
        with pytest.raises(UnimplementedError, match="must not depend on a tensor's"):
            recorded(proa.ones([3]))


def test_free_variables_and_globals_are_those_of_the_function():
    scale = 2.0

    def function(x: Any) -> Any:
        return x * scale + OFFSET if x.sum() > 0 else x

    x = proa.ones([2])
    np.testing.assert_allclose(to_static(function)(x).numpy(), [3.0, 3.0])
    scale = 5.0
    np.testing.assert_allclose(to_static(function)(x).numpy(), [6.0, 6.0])


OFFSET = 1.0
COUNT = 0


def test_globals_declared_in_a_branch_are_the_modules():
    def function(x: Any) -> Any:
        if x.ndim > 0:
            global COUNT
            COUNT = COUNT + 1
        if x.sum() > 0:
            x = x + OFFSET
        return x + COUNT

    np.testing.assert_allclose(to_static(function)(proa.ones([2])).numpy(), COUNT + 2)
    assert COUNT > 0
