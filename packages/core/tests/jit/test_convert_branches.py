"""`if` on tensors in recorded functions, against the functions themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidTypeError, UnboundVariableError
from proa.jit import InputSpec, to_static

from .equivalence import agree, assert_equal

RNG = np.random.default_rng(0)
#: An input for each path through two branches, by their sums and their first elements.
INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]
BRANCH = {"branch"}


def simple(x: Any) -> Any:
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y


def without_else(x: Any) -> Any:
    y = x * 2
    if x.sum() > 0:
        y = y + x
    return y


def several_branches(x: Any) -> Any:
    if x.sum() > 10:
        y = x * 2
    elif x.sum() > 0:
        y = x * 3
    elif x[0] < -2:
        y = x * 4
    else:
        y = x * 5
    return y


def nested_first_bound_inside(x: Any) -> Any:
    if x.sum() > 0:
        if x[0] > 0:
            a = x + 1
            b = a * 2
        else:
            b = x
        c = b + 1
    else:
        t = [x, x]  # of another kind in no other branch
        c = t[0] - 1
    return c


def temporaries_of_other_kinds(x: Any) -> Any:
    if x.sum() > 0:
        t = x + 1
        y = t * 2
    else:
        t = "a string"
        y = x if t else -x
    return y


def temporaries_of_both_branches(x: Any) -> Any:
    t = x * 2
    if x.sum() > 0:
        t = x - 1
        y = t * 2
    else:
        y = t + 1
        t = y
    return y


def numbers(x: Any) -> Any:
    if x.sum() > 0:
        k, rate, flag, same = 3, 0.5, True, 7
    else:
        k, rate, flag, same = 4, 1.5, False, 7
    return x * k + rate, flag, x.reshape([same - 4])


def a_number_or_a_tensor(x: Any) -> Any:
    scale: Any = 1
    if x.sum() > 0:
        scale = x.max()
    return x * scale


def logic(x: Any) -> Any:
    if x.sum() > 0 and not x[0] > 0:
        y = x * 2
    elif x[0] < -2 or x[1] > 100:
        y = x * 3
    else:
        y = x
    return y


def chained(x: Any) -> Any:
    return x if -5 < x.sum() < 7 else -x


def inline(x: Any) -> Any:
    return (x + 1 if x.sum() > 0 else x - 1) * (2 if x[0] > 0 else 3)


def lists_and_dictionaries(x: Any) -> Any:
    parts, named = [x], {"a": x}
    if x.sum() > 0:
        parts.append(x * 2)
        named["b"] = x + 1
    else:
        parts.append(x * 3)
        named["b"] = named.pop("a") + 2
        named["a"] = x
    return parts[0] + parts[1], named["a"], named["b"], len(parts)


def in_place(x: Any) -> Any:
    y = x * 1
    if y.sum() > 0:
        y[0] = 5.0
    else:
        y[1] = y[1] * 2
    return y


def python_values_decide(x: Any) -> Any:
    mode = "double" if x.shape[0] == 3 else None
    if mode is not None and mode == "double":
        x = x * 2
    if not mode:
        undefined  # noqa: B018, F821  # type: ignore[name-defined]  # not reached
    return x


FUNCTIONS = [
    simple, without_else, several_branches, temporaries_of_other_kinds, numbers,
    a_number_or_a_tensor, logic, chained, inline, lists_and_dictionaries, in_place,
]  # fmt: skip


@pytest.mark.feature("L183")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_branch_does_what_the_function_does(function: Any):
    agree(function, INPUTS, flow=BRANCH)


@pytest.mark.feature("L183")
@pytest.mark.parametrize("function", [simple, several_branches, logic, in_place])
def test_and_of_symbolic_sizes(function: Any):
    inputs = [np.tile(a, n) for n, a in enumerate(INPUTS, 1)]
    agree(function, inputs, [InputSpec([None])], BRANCH)


@pytest.mark.feature("L192")
@pytest.mark.parametrize(
    "function",
    [
        nested_first_bound_inside,
        temporaries_of_other_kinds,
        temporaries_of_both_branches,
    ],
)
def test_variables_first_bound_in_nested_branches_are_no_errors(function: Any):
    agree(function, INPUTS, flow=BRANCH)


def test_python_values_decide_as_python_has_it():
    static = agree(python_values_decide, INPUTS)
    assert {n.op for n in static.main_program.nodes()} <= {"mul", "scale"}


@pytest.mark.feature("L192")
def test_a_variable_of_one_branch_is_an_error_where_it_is_read():
    def unread(x: Any) -> Any:
        if x.sum() > 0:
            only = x + 1  # noqa: F841
        return x

    def read(x: Any) -> Any:
        if x.sum() > 0:  # the branch
            only = x + 1
        return x + only  # the reading line

    agree(unread, INPUTS)
    message = r"\[to_static\] only must be bound .*test_convert_branches\.py:\d+"
    with pytest.raises(UnboundVariableError, match=message) as caught:
        to_static(read)(proa.ones([3]))
    assert isinstance(caught.value, UnboundLocalError)
    (line,) = [
        str(entry.statement)
        for entry in caught.traceback
        if entry.path.name == "test_convert_branches.py"
        and "the reading line" in str(entry.statement)
    ]
    assert "only" in line


def test_an_error_about_branches_of_other_kinds_names_the_variable():
    def mixed(x: Any) -> Any:
        if x.sum() > 0:
            y: Any = x
        else:
            y = "text"
        return y

    message = r"y must be of one kind .*test_convert_branches\.py:\d+.*'text'"
    with pytest.raises(InvalidTypeError, match=message):
        to_static(mixed)(proa.ones([3]))


def test_a_variable_of_two_kinds_is_an_error_only_if_it_is_read():
    def unread(x: Any) -> Any:
        late = [lambda: y]
        if x.sum() > 0:
            y: Any = x
        else:
            y = "text"
        return x if late else y

    agree(unread, INPUTS)


def test_attributes_and_free_variables_are_stored_in_place():
    class Holder:
        value: Any = None

    holder, count = Holder(), 0

    def function(x: Any) -> Any:
        nonlocal count
        count += 1
        holder.value = x
        if x.sum() > 0:
            holder.value = holder.value * 2
        else:
            holder.value = holder.value * 3
        return holder.value + 1

    static = to_static(function)
    for a in INPUTS:
        got = static(proa.to_tensor(a))
        assert_equal(got, proa.to_tensor(a * (2 if a.sum() > 0 else 3) + 1))
    assert count == 1  # recorded once, in the cell that the test shares


def test_sides_that_python_skips_are_skipped():
    calls: list[str] = []

    def seen(name: str, value: Any) -> Any:
        calls.append(name)
        return value

    def function(x: Any) -> Any:
        a = seen("a", False) and seen("b", x)
        b = seen("c", 1) or seen("d", x)
        c = seen("e", x) if seen("f", True) else seen("g", x)
        d = seen("h", 3) < seen("i", 2) < seen("j", 5)
        return x if not a and b and not d else c

    to_static(function)(proa.ones([2]))
    once = ["a", "c", "f", "e", "h", "i"]
    assert calls == once * (len(calls) // len(once))
