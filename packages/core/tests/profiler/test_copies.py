"""Operators make what they must and no more: memory, kernels, copies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.profiler import Profiler

SIDE = 256


def quiet(_: Profiler) -> None:
    """Writes no trace."""


def kernels_of(function: Callable[[], Any]) -> Counter[str]:
    with Profiler(on_trace_ready=quiet) as p:
        function()
    return Counter(e.name for e in p.profiler_result.events if e.kind == "kernel")


def memory_of(function: Callable[[], Any]) -> int:
    """Bytes that the call needs at most besides existing memory."""
    function()
    before = _core.memory_stats()["allocated"]
    _core.reset_peak()
    result = function()
    peak: int = _core.memory_stats()["peak"]
    assert result is not None
    return peak - before


def one_array() -> int:
    """What an array of the tests' size takes, which the allocator rounds up."""
    return memory_of(lambda: proa.ones([SIDE, SIDE]))


@pytest.mark.feature("L287", how="mechanism")
def test_a_product_allocates_only_its_result():
    x, y, row = proa.ones([SIDE, SIDE]), proa.ones([SIDE, SIDE]), proa.ones([SIDE])
    assert memory_of(lambda: x * y) == one_array()
    assert memory_of(lambda: x * row) == one_array()
    assert memory_of(lambda: x * 2.0) == one_array()
    assert kernels_of(lambda: x * y) == {"mul": 1}


def test_assignment_is_one_copy_without_conversion():
    x = proa.ones([SIDE, SIDE])
    y = proa.zeros([SIDE, SIDE])
    assert memory_of(lambda: proa.assign(x)) == one_array()
    assert kernels_of(lambda: proa.assign(x)) == {"assign": 1}
    address = y.data_ptr()
    assert kernels_of(lambda: proa.assign(x, y)) == {"assign": 1}
    assert memory_of(lambda: proa.assign(x, y)) == 0
    assert y.data_ptr() == address


@pytest.mark.feature("L294", how="mechanism")
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_range_is_written_once(dtype):
    size = 4096

    def work() -> Any:
        return proa.arange(3, 3 + 2 * size, 2, dtype=dtype)

    assert memory_of(work) == memory_of(lambda: proa.zeros([size], dtype))
    assert kernels_of(work) == {"arange": 1}


@pytest.mark.feature("L293", how="mechanism")
def test_the_gradient_of_a_sum_of_equal_shapes_is_not_copied():
    x, y = (proa.ones([SIDE, SIDE]) for _ in range(2))
    x.stop_gradient = y.stop_gradient = False
    z = x + y
    dz = proa.ones([SIDE, SIDE])
    assert kernels_of(lambda: proa.grad([z], [x, y], [dz])) == {}


def test_reshape_and_flatten_share_memory():
    x = proa.ones([4, SIDE, 8])
    for work in (
        lambda: proa.reshape(x, [8, -1]),
        lambda: proa.flatten(x),
        lambda: proa.flatten(x, 1, 2),
    ):
        assert work().data_ptr() == x.data_ptr()
        assert kernels_of(work) == {}


@pytest.mark.feature("L292", how="mechanism")
def test_optimized_ops_take_one_pass_and_allocate_only_the_result():
    x, rows = proa.ones([SIDE, SIDE]), proa.arange(SIDE)
    for name, work in {
        "cumsum": lambda: proa.cumsum(x, 1),
        "gather": lambda: proa.index_select(x, rows),
        "concat": lambda: proa.roll(x, 3, 0),
        "add": lambda: x + x,
    }.items():
        assert kernels_of(work) == {name: 1}
        assert memory_of(work) == one_array()
    for work in (lambda: proa.reshape(x, [2, -1]), lambda: proa.nn.Flatten()(x)):
        assert kernels_of(work) == {} and work().data_ptr() == x.data_ptr()
    w = proa.create_parameter([SIDE, SIDE], "float32")
    adam = proa.optimizer.AdamW(0.1, parameters=[w], weight_decay=0.1)
    for _ in range(2):  # the first step also makes the state
        w.sum().backward()
        ran = kernels_of(adam.step)
    assert ran == {"adam_": 1}
    assert memory_of(lambda: [adam.step()]) < 1024


@pytest.mark.feature("L292", how="mechanism")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_recurrent_layer_is_one_product_and_one_kernel_for_all_steps(kind):
    layer = getattr(proa.nn, kind)(4, 8)
    for steps in (3, 30):
        x = proa.ones([2, steps, 4])
        ran = kernels_of(lambda x=x: layer(x))
        assert ran["linear"] == ran["recurrent"] == 1
        assert sum(ran.values()) <= 6  # states and transposes


@pytest.mark.feature("L291", how="mechanism")
def test_the_gradient_of_one_sorted_line_is_one_pass():
    x = proa.to_tensor(np.random.default_rng(0).standard_normal(4096), "float32")
    x.stop_gradient = False
    y, dy = proa.sort(x), proa.arange(4096).astype("float32")
    ran = kernels_of(lambda: y.backward(dy))
    assert sum(ran.values()) <= 2 and ran["take_along_axis_grad"] == 1
    want = np.empty(4096)
    want[np.argsort(x.numpy())] = dy.numpy()
    np.testing.assert_array_equal(x.grad.numpy(), want)


@pytest.mark.feature("L291", how="mechanism")
def test_one_long_line_is_sorted_as_fast_as_numpy_sorts_it():
    array = np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32)
    x = proa.to_tensor(array)

    def seconds(work: Callable[[], Any]) -> float:
        best = np.inf
        for _ in range(5):
            start = time.thread_time()
            work()
            best = min(best, time.thread_time() - start)
        return best

    np.testing.assert_array_equal(
        proa.argsort(x).numpy(), np.argsort(array, kind="stable")
    )
    # The keys' digits, not comparisons: a line as long as the array costs no more.
    ours = seconds(lambda: proa.argsort(x))
    assert ours < 2 * seconds(lambda: np.argsort(array, kind="stable"))


@pytest.mark.feature("L290", how="mechanism")
def test_a_shape_is_read_without_touching_the_elements():
    x = proa.transpose(proa.ones([SIDE, 2 * SIDE]), [1, 0])
    assert kernels_of(lambda: proa.shape(x)) == {}
    assert memory_of(lambda: proa.shape(x)) < 1024
    assert proa.shape(x).tolist() == [2 * SIDE, SIDE]
