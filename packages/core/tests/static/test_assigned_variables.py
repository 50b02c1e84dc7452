"""Variables of `create_var` and `create_global_var` that statements give a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import Error, InvalidArgumentError, PreconditionNotMetError

X = np.arange(6, dtype="float32").reshape(2, 3)


def run(main: Any, startup: Any, fetch: list[Any], **feed: Any) -> list[Any]:
    executor = static.Executor(proa.CPUPlace())
    executor.run(startup)
    return list(executor.run(main, feed, fetch))


def test_a_created_variable_has_the_value_that_is_assigned(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    result = main.current_block().create_var(
        name="result", dtype="float32", shape=[-1, 3]
    )
    assert proa.assign(x * 2, output=result) is result
    after = result + 1
    by_name, itself, more = run(main, startup, ["result", result, after], x=X)
    np.testing.assert_array_equal(by_name, 2 * X)
    np.testing.assert_array_equal(itself, 2 * X)
    np.testing.assert_array_equal(more, 2 * X + 1)
    assert not result.is_data
    (cloned,) = run(main.clone(for_test=True), startup, ["result"], x=X)
    np.testing.assert_array_equal(cloned, 2 * X)


def test_gradients_flow_through_an_assigned_variable(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    x.stop_gradient = False
    result = main.current_block().create_var(
        name="result", dtype="float32", shape=[-1, 3]
    )
    proa.assign(x * x, output=result)
    (grad,) = static.gradients([(3 * result).sum()], [x])
    np.testing.assert_array_equal(run(main, startup, [grad], x=X)[0], 6 * X)


def test_a_global_variable_has_the_last_value_between_runs(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    last = static.create_global_var([1], 0.0, "float32", persistable=True, name="last")
    total = static.create_global_var([1], 0.0, "float32", persistable=True)
    proa.assign(x.sum().reshape([1]), output=last)
    proa.assign(total + last, output=total)
    executor = static.Executor()
    executor.run(startup)
    for k in (1, 2, 3):
        found = executor.run(main, {"x": k * X}, [last, total])
        assert found[0] == k * X.sum() and found[1] == sum(range(k + 1)) * X.sum()
    assert static.global_scope().find_var("last").get_tensor() == 3 * X.sum()


def test_a_variable_without_a_shape_has_that_of_what_is_assigned(
    static_mode: Any,
) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    result = main.global_block().create_var(name="result", dtype="float32")
    for use in (lambda: result + 1, lambda: static.nn.py_func(_relu, x, result)):
        with pytest.raises(Error, match=r"'result', made by create_var without"):
            use()
    with pytest.raises(PreconditionNotMetError, match=r"'result'.*outside branches"):
        static.nn.cond(
            x.sum() > 0,
            lambda: proa.assign(x, output=result),
            lambda: proa.assign(-x, output=result),
        )
    proa.assign(x * 2, output=result)
    assert result.shape[1] == 3 and result.ndim == 2
    itself, more = run(main, startup, ["result", result.sum(axis=1)], x=X)
    np.testing.assert_array_equal(itself, 2 * X)
    np.testing.assert_array_equal(more, (2 * X).sum(1))
    with pytest.raises(InvalidArgumentError, match=r"persistable.*'held'"):
        main.global_block().create_var(name="held", persistable=True)


@pytest.mark.parametrize("is_true", [True, False])
def test_a_branch_assigns(static_mode: Any, is_true: bool) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    result = proa.zeros([1])
    static.nn.cond(
        x.sum() > 0,
        lambda: proa.assign(x.max().reshape([1]), output=result),
        lambda: proa.assign(x.min().reshape([1]), output=result),
    )
    found = run(main, startup, [result + 1], x=X if is_true else -X)[0]
    assert found == (6 if is_true else -4)


def test_a_loop_assigns(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    best = main.current_block().create_var(name="best", dtype="float32", shape=[-1, 3])
    proa.assign(x, output=best)

    def body(i: Any) -> Any:
        proa.assign(best * 2, output=best)
        return i + 1

    static.nn.while_loop(lambda i: i < 3, body, [proa.zeros([1], "int64")])
    np.testing.assert_array_equal(run(main, startup, [best], x=X)[0], 8 * X)


def test_a_variable_is_fed_if_nothing_was_assigned(static_mode: Any) -> None:
    main, startup = static_mode
    result = main.current_block().create_var(
        name="result", dtype="float32", shape=[-1, 3]
    )
    after = result + 1
    np.testing.assert_array_equal(run(main, startup, [after], result=X)[0], X + 1)
    with pytest.raises(InvalidArgumentError, match="'result'"):
        run(main, startup, [after])


def test_what_is_assigned_must_have_the_dtype_and_shape(static_mode: Any) -> None:
    held = static.create_global_var([2], 0.0, "float32", persistable=True, name="held")
    with pytest.raises(InvalidArgumentError, match=r"'held' .*float32\[2\], got int64"):
        proa.assign(proa.zeros([2], "int64"), output=held)
    with pytest.raises(InvalidArgumentError, match=r"got float32\[3\]"):
        proa.assign(proa.zeros([3]), output=held)


def _relu(x: Any) -> Any:
    return np.maximum(np.array(x), 0)


def _relu_grad(x: Any, y: Any, dy: Any) -> Any:
    return np.array(dy) * (np.array(y) > 0)


def test_a_python_function_gives_a_created_variable_its_value(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    hidden = static.nn.fc(x, 4, name="hidden")
    out = main.current_block().create_var(name="out", dtype="float32", shape=[-1, 4])
    given = static.nn.py_func(func=_relu, x=hidden, out=out, backward_func=_relu_grad)
    loss = (given * given).sum()
    proa.optimizer.SGD(0.0).minimize(loss)
    fetched = [hidden, "out", out, given, "hidden.w_0@GRAD"]
    raw, *result, grad = run(main, startup, fetched, x=X)
    want = np.maximum(raw, 0)
    for found in result:
        np.testing.assert_array_equal(found, want)
    np.testing.assert_allclose(grad, X.T @ (2 * want), rtol=1e-5)


def test_several_outputs_of_a_python_function_are_fetched(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float32")
    block = main.current_block()
    outs = [block.create_var(name=n, dtype="float32", shape=[-1, 3]) for n in "ab"]
    static.nn.py_func(lambda x: (x.numpy() + 1, x.numpy() * 3), x, outs)
    a, b = run(main, startup, ["a", outs[1]], x=X)
    np.testing.assert_array_equal(a, X + 1)
    np.testing.assert_array_equal(b, X * 3)
