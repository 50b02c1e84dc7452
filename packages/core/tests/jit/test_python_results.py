"""Static functions that return nothing, numbers or Python objects."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import proa
from proa import jit, nn
from proa.errors import InvalidArgumentError
from proa.jit import InputSpec, to_static

Pair = namedtuple("Pair", "sum count")


@dataclasses.dataclass
class Result:
    value: Any
    label: str = "label"


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


X = proa.to_tensor([1.0, 2.0, 3.0])
#: A function, and what Python returns for `X`.
FUNCTIONS = [
    (lambda x: None, None),
    (lambda x: 5, 5),
    (lambda x: x.shape[0] * 1.5, 4.5),
    (lambda x: "text", "text"),
    (lambda x: {1, 2}, {1, 2}),
    (lambda x: [None, (1, {"a": True})], [None, (1, {"a": True})]),
]


@pytest.mark.parametrize("takes_gradient", [False, True])
@pytest.mark.parametrize(("function", "want"), FUNCTIONS)
def test_a_function_may_return_python_values(
    function: Any, want: Any, takes_gradient: bool
) -> None:
    static = to_static(function)
    x = X.clone()
    x.stop_gradient = not takes_gradient
    for _ in range(3):
        assert static(x) == want
    with proa.no_grad():
        assert static(x) == want


def test_a_function_without_tensors_may_return_a_number() -> None:
    static = to_static(lambda: 7)
    assert static() == static() == 7


def test_what_it_does_besides_is_done_in_each_call() -> None:
    seen: list[float] = []

    @to_static
    def note(x: Any) -> None:
        if jit_is_idle():
            seen.append(float(x.sum()))

    for k in range(3):
        note(X * k)
    assert seen == [0.0, 6.0, 12.0]


def jit_is_idle() -> bool:
    from proa._core import is_recording

    return not is_recording()


class Counting(nn.Layer):
    """Counts its calls in a Python attribute, and returns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: Any) -> None:
        self.linear(x)
        self.calls = self.calls + 1


@pytest.mark.parametrize("training", [True, False])
def test_a_layers_attributes_change_once_in_each_call(training: bool) -> None:
    layer = to_static(Counting())
    layer.train() if training else layer.eval()
    for k in range(3):
        assert layer(X.reshape([1, 3])) is None
        assert layer.calls == k + 1


def test_named_tuples_stay_named() -> None:
    @to_static
    def pair(x: Any) -> Pair:
        return Pair(x.sum(), 3)

    for _ in range(2):
        result = pair(X)
        assert isinstance(result, Pair) and result.count == 3
        assert float(result.sum) == 6.0
        with proa.no_grad():
            assert float(pair(X).sum) == 6.0


@pytest.mark.parametrize("kind", [Result, Slotted])
def test_objects_have_tensors_of_their_own_call(kind: Any) -> None:
    static = to_static(lambda x: (x * 3, kind(x * 2)))
    for factor in (1.0, 2.0):
        plain, result = static(X * factor)
        assert isinstance(result, kind)
        np.testing.assert_allclose(plain.numpy(), X.numpy() * factor * 3)
        np.testing.assert_allclose(result.value.numpy(), X.numpy() * factor * 2)


def test_gradients_flow_through_objects() -> None:
    x = X.clone()
    x.stop_gradient = False
    to_static(lambda x: Result((x * x).sum()))(x).value.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X.numpy())


def test_a_model_file_must_have_tensors_to_give() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\[jit.save\].* no tensors, but 5"):
        jit.save(lambda x: 5, BytesIO(), [InputSpec([3])])
    with pytest.raises(InvalidArgumentError, match=r"\[jit.save\].* inside an object"):
        jit.save(lambda x: (x, Result(x * 2)), BytesIO(), [InputSpec([3])])


def test_a_saved_named_tuple_is_a_tuple() -> None:
    file = BytesIO()
    jit.save(lambda x: Pair(x.sum(), 3), file, [InputSpec([3])])
    file.seek(0)
    result = jit.load(file)(X)
    assert type(result) is tuple and float(result[0]) == 6.0 and result[1] == 3
