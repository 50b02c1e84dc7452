"""Gradients, hooks, modes and errors of the tape."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.autograd import PyLayer, PyLayerContext, backward
from proa.errors import InvalidArgumentError, PreconditionNotMetError

ops = _core.ops


def leaf(values: Any, dtype: str = "float64") -> Any:
    x = _core.from_numpy(np.asarray(values, dtype), True)
    x.stop_gradient = False
    return x


def total(x: Any) -> Any:
    return ops.sum(x, axis=[], keepdim=False)


def numeric(f: Any, x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """Central differences of a scalar function."""
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        out[i] = (f(x + step) - f(x - step)) / (2 * eps)
    return out


def test_backward_agrees_with_finite_differences():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    x, w = leaf(a), leaf(b)
    total(ops.tanh(x @ w) * 2 - x[:, :2] / 3).backward()

    def f(a: np.ndarray, b: np.ndarray) -> Any:
        return (np.tanh(a @ b) * 2 - a[:, :2] / 3).sum()

    np.testing.assert_allclose(x.grad.numpy(), numeric(lambda v: f(v, b), a), atol=1e-8)
    np.testing.assert_allclose(w.grad.numpy(), numeric(lambda v: f(a, v), b), atol=1e-8)


def test_gradients_of_broadcast_arrays_are_summed_and_of_converted_ones_cast():
    x, y = leaf([[1.0], [2.0]], "float32"), leaf([1.0, 2.0, 3.0], "float64")
    z = x * y
    assert z.dtype == "float64"
    total(z).backward()
    assert x.grad.dtype == "float32"
    np.testing.assert_array_equal(x.grad.numpy(), [[6.0], [6.0]])
    np.testing.assert_array_equal(y.grad.numpy(), [3.0, 3.0, 3.0])


def test_gradients_add_up_until_they_are_cleared():
    x = leaf([1.0, 2.0])
    for _ in range(3):
        total(x * x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 12.0])
    x._clear_grad()
    assert x.grad is None


def test_third_derivative_of_a_polynomial():
    x = leaf([2.0, 3.0])
    y = total(x * x * x * x)
    for order in (1, 2, 3):
        (g,) = proa.grad(y, x, create_graph=order < 3)
        y = total(g)
    np.testing.assert_allclose(g.numpy(), 24 * np.array([2.0, 3.0]))


def test_grad_leaves_the_leaves_alone_and_names_what_is_unused():
    x, y = leaf([1.0]), leaf([2.0])
    (g,) = proa.grad(x * 3, x)
    assert g.numpy() == 3 and x.grad is None
    with pytest.raises(InvalidArgumentError, match="input 1 unused"):
        proa.grad(x * 3, [x, y])
    assert proa.grad(x * 3, [x, y], allow_unused=True)[1] is None


def test_grad_of_an_intermediate_and_with_constants():
    x = leaf([3.0])
    y = x * x
    (g,) = proa.grad(y * y, y)
    assert g.numpy() == 18
    y = x * x
    (g,) = proa.grad(x * y, x, no_grad_vars=y)
    assert g.numpy() == 9
    x = leaf([3.0])
    y = x * 2
    (g,) = proa.grad(y, x, grad_outputs=leaf([5.0]))
    assert g.numpy() == 10


@pytest.mark.feature("L056")
def test_no_grad_as_block_decorator_and_generator():
    x = leaf([1.0])
    with proa.no_grad():
        assert (x * 2).stop_gradient
        with proa.enable_grad():
            assert not (x * 2).stop_gradient
    assert not (x * 2).stop_gradient

    @proa.no_grad()
    def double(v: Any) -> Any:
        return v * 2

    @proa.no_grad
    def doubles(v: Any) -> Any:
        yield v * 2
        yield v * 2

    assert double(x).stop_gradient
    for y in doubles(x):
        assert y.stop_gradient and proa.is_grad_enabled()
    with proa.set_grad_enabled(False):
        assert not proa.is_grad_enabled()
    assert proa.is_grad_enabled()


def test_the_mode_belongs_to_a_thread():
    seen = []
    with proa.no_grad():
        thread = threading.Thread(target=lambda: seen.append(proa.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_twice_needs_retain_graph():
    x = leaf([1.0])
    y = ops.exp(x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.e)
    with pytest.raises(PreconditionNotMetError, match="retain_graph=True"):
        y.backward()


def test_a_saved_tensor_changed_in_place_is_found_out():
    x = leaf([1.0, 2.0])
    y = x * 1.0
    z = y * y
    ops.add_(y, 1.0)
    with pytest.raises(PreconditionNotMetError, match=r"saved by op mul .* expected 0"):
        total(z).backward()


def test_in_place_ops_take_part_in_the_graph():
    x = leaf([1.0, 2.0])
    y = x * 3.0
    same = ops.mul_(y, 2.0)
    assert same is y and y.inplace_version == 1
    ops.exp_(y)
    total(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.exp([6.0, 12.0]))


def test_in_place_where_the_gradient_could_not_be_right():
    x = leaf([1.0, 2.0, 3.0])
    with pytest.raises(InvalidArgumentError, match="leaf"):
        ops.add_(x, 1.0)
    with proa.no_grad():
        ops.add_(x, 1.0)
    np.testing.assert_array_equal(x.numpy(), [2.0, 3.0, 4.0])
    y = x * 1.0
    view = y[1:]
    with pytest.raises(PreconditionNotMetError, match="view"):
        ops.add_(view, 1.0)
    ops.add_(y, 1.0)
    with pytest.raises(PreconditionNotMetError, match="through another tensor"):
        view * 2.0


def test_assigning_to_a_slice_propagates_gradients_to_both_operands():
    x, v = leaf(np.arange(6.0).reshape(2, 3)), leaf([1.0, 1.0, 1.0])
    y = x * 2
    y[0] = v
    y[:, 1] = 5.0
    total(y * y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 0], [24, 0, 40]])
    np.testing.assert_array_equal(v.grad.numpy(), [2, 0, 2])


def test_hooks_see_and_change_gradients():
    x = leaf([1.0])
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(float(g)))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.retain_grads()
    (y * 3).backward(retain_graph=True)
    assert seen == [3.0] and float(y.grad) == 30.0 and float(x.grad) == 61.0
    assert handle.remove() and not handle.remove()
    with pytest.raises(PreconditionNotMetError, match="stop_gradient=True"):
        x.detach().register_hook(print)


class Cube(PyLayer):
    @staticmethod
    def forward(ctx: PyLayerContext, x: Any, scale: float) -> Any:
        ctx.save_for_backward(x)
        ctx.scale = scale  # type: ignore[attr-defined]
        return x * x * x * scale

    @staticmethod
    def backward(ctx: PyLayerContext, dy: Any) -> Any:
        (x,) = ctx.saved_tensor()
        return dy * x * x * (3 * ctx.scale)  # type: ignore[attr-defined]


def test_py_layer_differentiates_twice():
    x = leaf([2.0])
    (g,) = proa.grad(Cube.apply(x, 2.0), x, create_graph=True)
    (h,) = proa.grad(g, x)
    assert float(g) == 24.0 and float(h) == 24.0


def test_py_layer_with_several_outputs_and_a_wrong_count():
    class Split(PyLayer):
        @staticmethod
        def forward(ctx: PyLayerContext, x: Any, y: Any) -> Any:
            return x + y, x - y

        @staticmethod
        def backward(ctx: PyLayerContext, a: Any, b: Any) -> Any:
            return a + b, a - b

    class Wrong(Split):
        @staticmethod
        def backward(ctx: PyLayerContext, a: Any, b: Any) -> Any:
            return (a,)

    x, y = leaf([1.0]), leaf([2.0])
    plus, minus = Split.apply(x, y)
    backward([plus * 2, minus * 3])
    assert float(x.grad) == 5.0 and float(y.grad) == -1.0
    with pytest.raises(InvalidArgumentError, match="2 tensor inputs, got 1"):
        Wrong.apply(x, y)[0].backward()


def test_an_error_in_a_hook_reaches_the_caller():
    x = leaf([1.0])
    y = x * 2

    def fail(g: Any) -> Any:
        raise KeyError("mine")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        (y * 3).backward()


def test_a_very_long_chain():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert float(x.grad) == 1.0


def test_memory_of_a_graph_is_released():
    x = leaf(np.ones(1000))
    before = _core.memory_stats()["allocated"]
    for _ in range(5):
        y = x
        for _ in range(10):
            y = ops.tanh(y)
        total(y).backward()
        x._clear_grad()
        del y
    assert _core.memory_stats()["allocated"] == before


def test_several_threads_compute_gradients():
    failures = []

    a = np.random.default_rng(0).normal(size=(160, 160)) / 16
    t = 1 - np.tanh(a @ a) ** 2
    want = t @ a.T + a.T @ t

    def work(number: int) -> None:
        for _ in range(5):
            x = leaf(a)
            total(ops.tanh(x @ x)).backward()
            if not np.allclose(x.grad.numpy(), want):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_backward_of_a_constant_warns_and_does_nothing():
    x = leaf([1.0, 2.0])
    with pytest.warns(UserWarning, match="stop_gradient=True"):
        leaf([1.0]).detach().backward()
    with pytest.warns(UserWarning, match="stop_gradient=True"):
        backward([x.detach(), x * 3], [None, leaf([1.0, 2.0])])
    assert x.grad.tolist() == [3.0, 6.0]
    with warnings.catch_warnings(), pytest.raises(UserWarning):
        warnings.simplefilter("error")
        x.detach().backward()
    with pytest.raises(InvalidArgumentError, match="tensor's shape"):
        (x * 2).backward(leaf([1.0, 2.0, 3.0]))


def test_grad_with_none_among_its_inputs():
    x, y = leaf([1.0, 2.0]), leaf([3.0])
    got = proa.grad(x * 2, [None, x, None, y], allow_unused=True)
    assert [g if g is None else g.tolist() for g in got] == [
        None,
        [2.0, 2.0],
        None,
        None,
    ]
    with pytest.raises(TypeError, match="None as input 1"):
        proa.grad(x * 2, [x, None])
    for outputs, inputs in ((None, x), (x, None), ([1], [x]), ([x, None], [x])):
        with pytest.raises(TypeError, match="grad"):
            proa.grad(outputs, inputs)


def test_grad_outputs_are_as_many_as_outputs():
    x = leaf([1.0, 2.0])
    (got,) = proa.grad([x * 2, x * 3], [x], grad_outputs=[None, leaf([1.0, 10.0])])
    assert got.tolist() == [5.0, 32.0]
    with pytest.raises(ValueError, match="each of 2 outputs, got 1"):
        proa.grad([x * 2, x * 3], [x], grad_outputs=[None])


def test_hooks_and_retained_graphs_of_second_derivatives():
    x = leaf([2.0])
    seen: list[float] = []
    x.register_hook(lambda g: seen.append(float(g)))
    y = x * x * x
    (first,) = proa.grad(y, x, create_graph=True)  # 3 x**2
    first.register_hook(lambda g: g * 10)
    first.backward(retain_graph=True)  # 6 x, ten times by the hook
    assert x.grad.tolist() == [120.0]
    y.backward(retain_graph=True)
    first.backward()
    assert x.grad.tolist() == [120.0 + 12.0 + 120.0]
    assert seen == [12.0, 120.0, 12.0, 120.0]
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        first.backward()
