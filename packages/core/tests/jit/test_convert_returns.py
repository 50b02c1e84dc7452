"""Early returns in recorded functions, of one kind or of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidTypeError
from proa.jit import InputSpec, load, save, to_static

from .equivalence import agree, assert_equal

INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]
N = [(a, np.int64(n)) for a, n in zip(INPUTS, (3, 0, 1, 6), strict=True)]
SPEC = [InputSpec([3]), InputSpec([], "int64")]


def guards(x: Any) -> Any:
    if x.sum() > 10:
        return x * 2
    if x[0] < -3:
        return x * 3
    y = x * 4
    return y - 1


def in_every_branch(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    if x[0] > 0:
        return x + 2
    return x + 3


def nested(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        if x[0] > 0:
            return y * 2
        y = y + 1
        if x[1] > 5:
            y = y * 10
        else:
            return y
    else:
        y = y - 1
    return y * 3


def numbers(x: Any) -> Any:
    if x.sum() > 10:
        return x, 1
    if x.sum() > 0:
        return x + 1, 2
    return x, 2


def from_loops(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        if x.sum() > 10:
            return x
        for k in range(n):
            x = x + k
            if x[0] > 4:
                return x * 2
        i += 1
    return -x


def from_python_loop(x: Any, n: Any) -> Any:
    for k in range(3):
        x = x + k
        if x.sum() > 8:
            return x
    return x * n


def from_with(x: Any) -> Any:
    with proa.no_grad():
        if x.sum() > 0:
            return x * 2
        y = x * 3
    return y + 1


def from_try(x: Any) -> Any:
    try:
        y = {"a": x}["b"]
    except KeyError:
        y = x + 5
        if x.sum() > 0:
            return y * 2
    else:
        y = x * 0
    finally:
        x = x * 0
    return y + x


def tensor_or_none(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return None


def falls_off_the_end(x: Any) -> Any:  # noqa: RET503
    if x.sum() > 0:
        return x * 2


def of_several_lengths(x: Any) -> Any:
    if x.sum() > 10:
        return x
    if x.sum() > 0:
        return x, x + 1
    if x[0] > 0:
        return {"a": x, "b": [x * 2]}
    return None


def none_from_a_loop(x: Any, n: Any) -> Any:
    for i in range(n):
        x = x + i
        if x.sum() > 10:
            return x, i
    return None


ONE_KIND = [guards, in_every_branch, nested, numbers, from_with, from_try]
SEVERAL = [tensor_or_none, falls_off_the_end, of_several_lengths]


@pytest.mark.feature("L185")
@pytest.mark.parametrize("function", [*ONE_KIND, *SEVERAL], ids=lambda f: f.__name__)
def test_early_returns_from_branches(function: Any):
    agree(function, INPUTS, flow={"branch"})


@pytest.mark.feature("L185")
@pytest.mark.parametrize("function", [from_loops, from_python_loop, none_from_a_loop])
def test_early_returns_from_loops(function: Any):
    flow = {"branch"} if function is from_python_loop else {"loop"}
    agree(function, N, SPEC, flow)


@pytest.mark.parametrize("function", [*ONE_KIND, *SEVERAL], ids=lambda f: f.__name__)
def test_a_saved_function_takes_every_branch(function: Any, tmp_path: Any):
    # Saved after a call that took one branch, it takes the others too.
    static = to_static(function, input_spec=[InputSpec([3])])
    static(proa.to_tensor(INPUTS[0]))
    save(static, str(tmp_path / "f"))
    loaded = load(str(tmp_path / "f"))
    for a in INPUTS:
        assert_equal(loaded(proa.to_tensor(a)), function(proa.to_tensor(a)))


def test_errors_of_a_part_are_for_no_handler_around_it():
    def function(x: Any) -> Any:
        try:
            if x.sum() > 0:
                return x * 2
            y = {"a": x}["b"]  # the line that fails
        except KeyError:  # only if the sum is not above zero, which nobody knows
            y = x + 5
        return y

    with pytest.raises(KeyError, match="b") as caught:
        to_static(function)(proa.ones([3]))
    lines = [str(entry.statement) for entry in caught.traceback]
    assert any("the line that fails" in line for line in lines)


def test_a_function_that_is_called_must_return_one_kind():
    def inner(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return None

    @to_static
    def outer(x: Any) -> Any:
        y = inner(x)
        return x if y is None else y * 2

    message = "inner must return one kind of value.*Tensor or None"
    with pytest.raises(InvalidTypeError, match=message):
        outer(proa.ones([3]))
