"""`while` and `for` on tensors in recorded functions, against the functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidTypeError
from proa.jit import InputSpec, to_static

from .equivalence import agree

LOOP = {"loop"}
X = [np.float32(a) for a in ([1, 2, 3], [5, 1, 0], [40, 50, 60], [0.1, 0.2, 0.1])]
#: (array, how often)
XN = [(X[k], np.int64(n)) for k, n in enumerate((3, 0, 1, 7))]
XN_ONCE = [(x, max(n, 1)) for x, n in XN]
SPEC = [InputSpec([3]), InputSpec([], "int64")]


def counting(x: Any) -> Any:
    i = 0
    while x.sum() < 100:
        x = x * 2
        i += 1
    return x, i


def to_a_bound(x: Any, n: Any) -> Any:
    i, total = 0, x * 0
    while i < n:
        total = total + x * i
        i += 1
    return total


def ranged(x: Any, n: Any) -> Any:
    total = x * 0
    for i in range(n):
        total = total + x * i
    for i in range(1, n, 2):
        total = total - i
    for i in range(n, 0, -1):
        total = total * 2 + i
    return total


def left_by_break(x: Any, n: Any) -> Any:
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if x[0] > 30:
            continue
        x = x + i
        if x.sum() > 20:
            break
    return x, i


def for_with_break(x: Any, n: Any) -> Any:
    found = x * 0
    for i in range(n):
        if i == 2:
            continue
        found = found + x
        if found.sum() > 30:
            break
    else:
        found = -found
    return found


def while_with_else(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        if x[i % 3] > 45:
            x = x + 1000
            break
        i = i + 1
    else:
        x = x - 1
    return x


def loop_in_branch_in_loop(x: Any, n: Any) -> Any:
    total = x * 0
    for i in range(n):
        if x.sum() > 5:
            k = 0
            while k < i:
                if x[0] > k:
                    total = total + x
                else:
                    last = total * 0.5
                    total = last + 1
                k += 1
        else:
            for r in x:
                total = total + r
    return total


def breaks_of_nested_loops(x: Any, n: Any) -> Any:
    rounds = 0
    for i in range(n):
        for k in range(n):
            if k > i:
                break
            if k == 1:
                continue
            rounds = rounds + 1
            x = x + 0.5
        if x.sum() > 60:
            break
    return x, rounds


def first_bound_in_the_body(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        last = x * i
        if i > 1:
            inner = last + 1
        else:
            inner = last - 1
        i += 1
    return last + inner


def python_loop_tensor_break(x: Any, n: Any) -> Any:
    for k in range(4):
        if x.sum() * k > 20:
            break
        x = x + k
    else:
        x = -x
    return x, k


def pairs(x: Any, n: Any) -> Any:
    state = (x, x * 0)
    items = {"a": x, "b": [x, 1]}
    for i in range(n):
        state = (state[1] + i, state[0])
        items["b"][0] = items["b"][0] + items["a"]
    return state, items["b"]


def tuple_as_loop_variable(x: Any, n: Any) -> Any:
    total = x * 0
    for a, (b, c) in [(x, (1, 2)), (x + 1, (3, 4))]:
        if a.sum() > n:
            total = total + a * b
        else:
            total = total + c
    for k, (one, two) in enumerate(zip(x, x + 1)):  # noqa: B905
        if one > n:
            total = total + two * k
    return total


def dictionaries(x: Any, n: Any) -> Any:
    parts, total = {"a": x, "b": x * 2}, x * 0
    for key, value in parts.items():
        if value.sum() > n:
            total = total + value
        elif key == "b":
            total = total - value
    for key in parts.keys():  # noqa: SIM118
        if parts[key][0] > n:
            total = total + 1
    for value in parts.values():
        while total.sum() < 10:
            total = total + value
    return total


FUNCTIONS = [
    to_a_bound, ranged, left_by_break, for_with_break, while_with_else, pairs,
    loop_in_branch_in_loop, breaks_of_nested_loops,
]  # fmt: skip


@pytest.mark.feature("L183")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_loop_does_what_the_function_does(function: Any):
    agree(function, XN, SPEC, LOOP)


@pytest.mark.feature("L183")
def test_a_loop_that_counts_in_python_until_a_tensor_ends_it():
    agree(counting, X, flow=LOOP)


@pytest.mark.feature("L192")
@pytest.mark.parametrize(
    "function",
    [loop_in_branch_in_loop, first_bound_in_the_body, breaks_of_nested_loops],
)
def test_variables_first_bound_in_nested_loops_are_no_errors(function: Any):
    agree(function, XN_ONCE, SPEC, LOOP)


def test_a_python_loop_that_a_tensor_leaves():
    agree(python_loop_tensor_break, XN, SPEC, {"branch"})


@pytest.mark.feature("L184")
def test_tuples_as_loop_variables():
    agree(tuple_as_loop_variable, XN, SPEC, {"branch"})


@pytest.mark.feature("L191")
def test_dictionaries_are_iterated_over():
    agree(dictionaries, XN_ONCE[:2], SPEC, {"branch", "loop"})


def over_rows(x: Any) -> Any:
    total = x.sum() * 0
    for row in x:
        if row[0] > 0:
            total = total + row.sum()
    return total


def over_numbered_rows(x: Any) -> Any:
    total = x.sum() * 0
    for k, row in enumerate(x, 1):
        if k == 2:
            continue
        total = total + row.max() * k
        if total > 20:
            break
    return total


def over_a_list(x: Any) -> Any:
    parts = [x, x * 2, x - 1]
    for k, part in enumerate(parts):
        if part.sum() > 0:
            parts[k] = part * 10
    return parts[0] + parts[1] + parts[2]


def over_two(x: Any) -> Any:
    total = x[0] * 0
    for a, b in zip(x, x * 2):  # noqa: B905
        total = total + a * b
    return total


def by_length(x: Any) -> Any:
    total = x[0] * 0
    for i in range(len(x)):
        total = total + x[i] * i
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


def by_index(x: Any) -> Any:
    total, i = x[0] * 0, 0
    while i < x.shape[0]:
        with proa.no_grad():
            if x[i].sum() > 0:
                t = x[i]
            else:
                t = "negative"  # noqa: F841  (of another kind, read by nobody)
        total = total + x[i]
        i += 1
    return total


ROWS = [
    np.float32(a)
    for a in ([[1, 2], [3, 4]], [[-1, 2], [5, -9], [1, 1]], [[-7, 8]], [[9, 9]] * 5)
]


@pytest.mark.feature("L187")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "function",
    [over_rows, over_numbered_rows, over_a_list, over_two, by_length, by_index],
)
def test_tensors_and_lists_are_iterated_over(function: Any, known: bool):
    if known:
        for rows in ROWS:
            agree(function, [rows, -rows])
    else:
        flow = {"branch"} if function is over_a_list else LOOP
        agree(function, ROWS, [InputSpec([None, 2])], flow)


def test_an_error_about_a_list_that_grows_in_a_tensors_loop_names_it():
    @to_static(input_spec=SPEC)
    def growing(x: Any, n: Any) -> Any:
        found = []
        i = 0
        while i < n:
            found.append(x)
            i += 1
        return found

    message = r"found\[\] must be of one kind from round to round.*a list of 0"
    with pytest.raises(InvalidTypeError, match=message):
        growing(proa.ones([3]), proa.to_tensor(2))


def grows_in_one_branch(x: Any) -> Any:
    parts = [x, x]
    for _ in range(int(x[0])):
        if x[1] < 0:
            parts += [x * 2]
    return parts[0]


def becomes_none(x: Any) -> Any:
    y: Any = x
    while x.sum() < 9:
        if x[1] > 0:
            y = None
        x = x + 1
    return x if y is None else y


@pytest.mark.parametrize("function", [grows_in_one_branch, becomes_none])
def test_what_a_round_loses_is_not_recovered(function: Any):
    with pytest.raises(InvalidTypeError, match="must be of one kind"):
        to_static(function)(proa.to_tensor([1.0, 2.0, 3.0]))
