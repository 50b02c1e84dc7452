"""Branches and loops of Python functions, and arrays of tensors, run at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    UnimplementedError,
)
from proa.static import nn as snn
from proa.tensor import array_length, array_read, array_write, create_array


def _t(value: Any) -> proa.Tensor:
    return proa.to_tensor(value)


@pytest.mark.feature("L162")
@pytest.mark.parametrize("is_true", [True, False])
def test_cond_runs_one_branch(is_true: bool) -> None:
    x = proa.to_tensor([2.0], stop_gradient=False)
    ran = []

    def double() -> proa.Tensor:
        ran.append("double")
        return x * 2

    def square() -> proa.Tensor:
        ran.append("square")
        return x * x

    y = snn.cond(_t([is_true]), double, square)
    y.backward()
    assert ran == ["double" if is_true else "square"]
    assert (y.item(), x.grad.item()) == ((4.0, 2.0) if is_true else (4.0, 4.0))
    assert (snn.cond(_t(is_true), double) is None) is not is_true


@pytest.mark.feature("L162")
def test_branches_may_step_with_optimizers_of_their_own() -> None:
    a, b = (proa.to_tensor([1.0], stop_gradient=False) for _ in range(2))
    fast = proa.optimizer.SGD(0.5, [a])
    slow = proa.optimizer.SGD(0.1, [b])
    for k in range(4):
        snn.cond(
            _t(k % 2 == 0),
            lambda: fast.minimize((a * a).sum()),
            lambda: slow.minimize((3 * b).sum()),
        )
        fast.clear_grad()
        slow.clear_grad()
    # a - 0.5 * 2a = 0, then stays; b loses 0.1 * 3 twice
    np.testing.assert_allclose([a.item(), b.item()], [0.0, 0.4], rtol=1e-6)


@pytest.mark.feature("L162")
def test_case_takes_the_first_true_branch_else_the_default() -> None:
    x = _t(0.3)
    pairs = [(x < 0.1, lambda: "low"), (x < 0.5, lambda: "mid"), (x < 2, lambda: "up")]
    assert snn.case(pairs) == "mid"
    assert snn.case(pairs[:1], default=lambda: "none") == "none"
    assert snn.case(pairs[:1]) == "low"  # the last stands for the default


@pytest.mark.feature("L162")
@pytest.mark.parametrize("form", [dict, list])
@pytest.mark.parametrize(
    ("index", "default", "want"),
    [(1, None, "one"), (7, "other", "other"), (7, None, "three")],
)
def test_switch_case_takes_the_branch_of_the_number(
    form: Any, index: int, default: str | None, want: str
) -> None:
    branches = form([(3, lambda: "three"), (1, lambda: "one")])
    other = None if default is None else lambda: default
    assert snn.switch_case(_t([index]), branches, other) == want
    assert snn.switch_case(_t(0), [lambda: "first", lambda: "second"]) == "first"


@pytest.mark.feature("L162")
def test_while_loop_runs_until_its_condition_fails_and_differentiates() -> None:
    x = proa.to_tensor([1.5], stop_gradient=False)
    i, y = snn.while_loop(
        lambda i, y: i < 4, lambda i, y: [i + 1, y * x], [_t([0]), _t([1.0])]
    )
    assert i.item() == 4
    np.testing.assert_allclose(y.item(), 1.5**4)
    y.backward()
    np.testing.assert_allclose(x.grad.item(), 4 * 1.5**3)
    (only,) = snn.while_loop(lambda i: i < 3, lambda i: i + 1, [_t(0)])
    assert only.item() == 3
    assert snn.while_loop(lambda i: i < 0, lambda i: i + 1, [_t(0)])[0].item() == 0


@pytest.mark.feature("L162")
def test_branches_and_loops_nest() -> None:
    """The steps of Collatz's sequence from 6: 3 10 5 16 8 4 2 1."""
    n, steps = snn.while_loop(
        lambda n, k: n != 1,
        lambda n, k: [
            snn.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1),
            k + 1,
        ],
        [_t([6]), _t([0])],
    )
    assert (n.item(), steps.item()) == (1, 8)


@pytest.mark.feature("L162")
def test_arrays_are_written_and_read_by_number() -> None:
    array = create_array("float32", [proa.ones([2])])
    x = proa.to_tensor([3.0], stop_gradient=False)
    assert array_write(x, _t([1]), array) is array
    array_write(x * 2, _t(1), array)
    array_write(x, array_length(array), array)
    assert array_length(array).tolist() == [3]
    (array_read(array, _t(1)) * array_read(array, _t(2))).backward()
    assert x.grad.item() == 12.0  # d 2 x^2
    assert array_write(x, _t(0))[0] is x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: snn.cond(1, None),
            InvalidTypeError,
            r"\[cond\] a condition must be a",
        ),
        (lambda: snn.cond(_t(1.0)), InvalidTypeError, "must be bool, got float32"),
        (lambda: snn.cond(_t([True] * 2)), InvalidArgumentError, r"element, got .*2\]"),
        (lambda: snn.cond(_t(True), 3), InvalidTypeError, "true_fn must be a function"),
        (lambda: snn.case([]), InvalidTypeError, "pred_fn_pairs must be a list"),
        (lambda: snn.case([3]), InvalidTypeError, "a pair must be a tuple"),
        (lambda: snn.switch_case(_t(0.5), [min]), InvalidTypeError, "must be integer"),
        (lambda: snn.switch_case(_t(0), [3]), InvalidTypeError, "a branch must be"),
        (
            lambda: snn.switch_case(_t(0), [(1, min), (1, max)]),
            InvalidArgumentError,
            "got 1 twice",
        ),
        (lambda: snn.while_loop(3, min, [1]), InvalidTypeError, "cond must be a func"),
        (lambda: snn.while_loop(min, max, 1), InvalidTypeError, "must be a list"),
        (lambda: snn.while_loop(min, max, []), InvalidArgumentError, "not be empty"),
        (
            lambda: snn.while_loop(lambda i: i < 1, lambda i: (i, i), [_t(0)]),
            InvalidArgumentError,
            "body must return 1 values, got 2",
        ),
        (lambda: array_read([], _t(0)), OutOfRangeError, "must be below 0"),
        (lambda: array_write(_t(0), _t(1), []), OutOfRangeError, "must be at most 0"),
        (lambda: array_read((), _t(0)), InvalidTypeError, "array must be a list"),
        (lambda: array_read([], 0), InvalidTypeError, "i must be a Tensor"),
        (
            lambda: create_array("int64", [_t(0.5)]),
            InvalidArgumentError,
            "must be int64, got float32",
        ),
    ],
)
def test_invalid_arguments_are_rejected(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_reading_a_symbolic_tensor_names_the_line() -> None:
    @proa.jit.to_static
    def f(x: proa.Tensor) -> proa.Tensor:
        return x * x.sum().item()

    with pytest.raises(UnimplementedError, match=r"test_control_flow\.py:\d+: return"):
        f(proa.ones([2]))


def test_a_layer_in_a_loop_has_one_set_of_parameters(static_mode: Any) -> None:
    """The body is retraced where a round changes a tensor around it."""
    main, _ = static_mode
    state = static.nn.fc(static.data("x", [None, 3]), 4)

    def body(i: Any) -> Any:
        proa.assign(static.nn.fc(state, 4, bias_attr=False), output=state)
        return i + 1

    static.nn.while_loop(lambda i: i < 2, body, [proa.zeros([1], "int64")])
    after = static.nn.fc(state, 2, bias_attr=False)
    names = [p.name for p in main.all_parameters()]
    assert names == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_2.w_0"]
    assert after.shape == [-1, 2]
