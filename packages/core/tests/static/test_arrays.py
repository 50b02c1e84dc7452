"""Lists of Variables that grow while a program is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from proa.tensor import array_length, array_read, array_write, create_array


def test_variables_are_written_and_read_at_places_that_are_constants(
    static_mode: Any,
) -> None:
    x = static.data("x", [None, 3], "float32")
    array, i = create_array("float32"), proa.full([1], 0, "int64")
    array_write(x, i, array)
    proa.increment(i)
    array_write(x * 2, i, array)
    array_write(x * 4, array_length(array), array)
    array_write(x * 8, proa.to_tensor([3]), array)
    read = [array_read(array, k) for k in (i, i + 1, i * 3)]
    feed = {"x": np.ones((2, 3), np.float32)}
    found = static.Executor().run(feed=feed, fetch_list=[*read, array_length(array)])
    for array_found, factor in zip(found[:3], (2, 4, 8), strict=True):
        np.testing.assert_array_equal(array_found, np.full((2, 3), factor))
    assert found[3].tolist() == [4]


def run(fetch: list[Any], **feed: Any) -> list[Any]:
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return list(executor.run(feed=feed, fetch_list=fetch))


def counter() -> Any:
    return proa.zeros([1], "int64")


X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.mark.parametrize("carried", [True, False])
def test_a_loop_writes_an_empty_array(static_mode: Any, carried: bool) -> None:
    """As a decoder collects its steps; the array is a loop variable or is not."""
    x, n = static.data("x", [None, 3], "float32"), static.data("n", [1], "int64")
    array = create_array("float32")

    def body(i: Any, h: Any, *rest: Any) -> Any:
        array_write(h, i, *(rest or [array]))
        return [i + 1, h * 2, *rest]

    rest = [array] if carried else []
    static.nn.while_loop(lambda i, *_: i < n, body, [counter(), x, *rest])
    second = array_read(array, proa.ones([1], "int64"))
    last = array_read(array, n - 1)
    for rounds in (2, 5):
        found = run([second, last, array_length(array)], x=X, n=np.array([rounds]))
        np.testing.assert_array_equal(found[0], 2 * X)
        np.testing.assert_array_equal(found[1], 2 ** (rounds - 1) * X)
        assert found[2].tolist() == [rounds]
    with pytest.raises(OutOfRangeError):
        run([second], x=X, n=np.array([1]))


def test_a_loop_reads_what_it_wrote_before(static_mode: Any) -> None:
    """Fibonacci numbers; the sizes of entries follow from what is fed."""
    x, n = static.data("x", [None, 3], "float32"), static.data("n", [1], "int64")
    array = array_write(x, counter())
    array_write(x, proa.ones([1], "int64"), array)

    def body(i: Any) -> Any:
        array_write(array_read(array, i - 1) + array_read(array, i - 2), i, array)
        return i + 1

    static.nn.while_loop(lambda i: i < n, body, [proa.full([1], 2, "int64")])
    last = array_read(array, array_length(array) - 1)
    (found,) = run([last], x=X, n=np.array([10]))
    np.testing.assert_array_equal(found, 55 * X)


def test_places_are_overwritten(static_mode: Any) -> None:
    i = static.data("i", [1], "int64")
    array = create_array("float32", [proa.full([2], float(k)) for k in range(4)])
    array_write(proa.full([2], -1.0), i, array)
    entries = [array_read(array, proa.full([1], k, "int64")) for k in range(4)]
    for place in range(4):
        found = run(entries, i=np.array([place]))
        want = [-1.0 if k == place else float(k) for k in range(4)]
        np.testing.assert_array_equal(found, np.repeat(want, 2).reshape(4, 2))
    assert run([array_length(array)], i=np.array([4]))[0].tolist() == [5]
    with pytest.raises(OutOfRangeError):
        run([array_length(array)], i=np.array([6]))


@pytest.mark.parametrize("is_true", [True, False])
def test_a_branch_writes(static_mode: Any, is_true: bool) -> None:
    x = static.data("x", [2, 3], "float32")
    array = array_write(x, counter())

    def twice() -> None:
        array_write(x * 2, array_length(array), array)

    static.nn.cond(x.sum() > 0, twice)
    found = run([array_length(array)], x=X if is_true else -X)
    assert found[0].tolist() == [1 + is_true]


def test_an_inner_loop_writes_an_array_of_the_outer_one(static_mode: Any) -> None:
    total = proa.zeros([1])

    def outer(i: Any, total: Any) -> Any:
        array = create_array("float32")

        def inner(k: Any) -> Any:
            array_write(proa.cast(k + i, "float32"), k, array)
            return k + 1

        static.nn.while_loop(lambda k: k < 3, inner, [counter()])
        return [i + 1, total * 10 + array_read(array, i)]

    _, total = static.nn.while_loop(lambda i, t: i < 3, outer, [counter(), total])
    assert run([total])[0] == 24  # 0 + 0, 1 + 1, 2 + 2


def test_gradients_flow_through_an_array(static_mode: Any) -> None:
    """A recurrence h[t + 1] = w h[t] + x[t] with its steps in arrays."""
    steps = static.data("x", [4, 3], "float32")
    w = static.create_parameter(
        [1], "float32", default_initializer=proa.nn.initializer.Constant(0.5)
    )
    inputs = create_array("float32", [steps[t] for t in range(4)])
    states = array_write(proa.zeros([3]), counter())

    def body(t: Any) -> Any:
        result = w * array_read(states, t) + array_read(inputs, t)
        array_write(result, t + 1, states)
        return t + 1

    (t,) = static.nn.while_loop(lambda t: t < 4, body, [counter()])
    loss = array_read(states, t).sum()
    ((_, grad),) = static.append_backward(loss)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    value, slope = run([loss, grad], x=x)
    totals = x.sum(1)
    want = sum(0.5 ** (3 - t) * totals[t] for t in range(4))
    np.testing.assert_allclose(value, want, rtol=1e-5)
    want = sum((3 - t) * 0.5 ** (2 - t) * totals[t] for t in range(3))
    np.testing.assert_allclose(slope, [want], rtol=1e-5)


def test_lists_of_their_own_are_not_written_at_computed_places(
    static_mode: Any,
) -> None:
    i = static.data("i", [1], "int64")
    with pytest.raises(UnimplementedError, match="one of create_array"):
        array_read([i], i)
    with pytest.raises(InvalidArgumentError, match="an entry"):
        array_read(create_array("int64"), i)
    array = create_array("int64", [i])
    with pytest.raises(InvalidArgumentError, match="must be int64 with 1 axes"):
        array_write(proa.zeros([1]), i, array)
