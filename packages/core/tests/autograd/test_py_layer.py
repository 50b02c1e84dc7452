"""What a PyLayer's context can say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.autograd import PyLayer, PyLayerContext


class Split(PyLayer):
    """x -> (2 x, 3 x); notes the gradients that come."""

    materialize = True
    seen: tuple[Any, ...] = ()

    @staticmethod
    def forward(ctx: PyLayerContext, x: Any) -> Any:
        ctx.set_materialize_grads(Split.materialize)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: PyLayerContext, *grads: Any) -> Any:
        Split.seen = grads
        parts = [g * k for g, k in zip(grads, (2, 3), strict=True) if g is not None]
        return proa.add_n(parts)


@pytest.mark.feature("L055")
def test_backward_calls_the_static_method_of_the_class():
    class Clipped(PyLayer):
        """x * y; the gradient of x is clipped to 1, that of y is its own."""

        @staticmethod
        def forward(ctx: PyLayerContext, x: Any, y: Any, scale: float = 1.0) -> Any:
            ctx.save_for_backward(x, y)
            ctx.scale = scale
            return x * y * scale

        @staticmethod
        def backward(ctx: PyLayerContext, grad: Any) -> Any:
            x, y = ctx.saved_tensor()
            return proa.clip(grad * y * ctx.scale, -1, 1), grad * x * ctx.scale

    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = proa.to_tensor([0.25, -5.0], stop_gradient=False)
    z = Clipped.apply(x * 3, y, scale=2.0)
    assert z.tolist() == [1.5, -60.0]
    (z * 0.5).sum().backward()
    assert x.grad.tolist() == [0.75, -3.0]  # 3 times 0.25 and -5, clipped
    assert y.grad.tolist() == [3.0, 6.0]


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_gradients_are_zeros_or_none(materialize: bool):
    Split.materialize = materialize
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    Split.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    if materialize:
        assert Split.seen[0].tolist() == [0.0, 0.0]
    else:
        assert Split.seen[0] is None


def test_what_is_marked_not_inplace_is_a_tensor_of_its_own():
    class Same(PyLayer):
        @staticmethod
        def forward(ctx: PyLayerContext, x: Any) -> Any:
            ctx.mark_not_inplace(x)
            return x

        @staticmethod
        def backward(ctx: PyLayerContext, grad: Any) -> Any:
            return grad * 5

    x = proa.to_tensor([1.0], stop_gradient=False)
    y = Same.apply(x)
    assert y is not x and x.is_leaf and not y.is_leaf
    y.backward()
    assert x.grad.tolist() == [5.0]


def test_outputs_marked_non_differentiable_stop_gradients():
    class Order(PyLayer):
        @staticmethod
        def forward(ctx: PyLayerContext, x: Any) -> Any:
            index = proa.argsort(x)
            ctx.mark_non_differentiable(index)
            ctx.save_for_backward(index)
            return proa.sort(x), index

        @staticmethod
        def backward(ctx: PyLayerContext, *grads: Any) -> Any:
            (index,) = ctx.saved_tensor()
            back = np.zeros(3, "float32")
            back[index.numpy()] = grads[0].numpy()
            return proa.to_tensor(back)

    x = proa.to_tensor([3.0, 1.0, 2.0], stop_gradient=False)
    values, index = Order.apply(x)
    assert index.stop_gradient and not values.stop_gradient
    (values * proa.to_tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


def test_set_grad_enabled_clones():
    switch = proa.set_grad_enabled(False)
    proa.set_grad_enabled(True)
    with switch.clone():
        assert not proa.is_grad_enabled()
    assert proa.is_grad_enabled()


@pytest.mark.parametrize("materialize", [True, False])
def test_backward_gets_zeros_for_outputs_marked_as_constant(materialize):
    class Parts(PyLayer):
        @staticmethod
        def forward(ctx: PyLayerContext, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            whole, rest = x * 2, x * 3
            ctx.mark_non_differentiable(whole)
            return whole, "not a tensor", rest

        @staticmethod
        def backward(ctx: PyLayerContext, d_whole: Any, d_rest: Any) -> Any:
            given.append(d_whole)
            return d_rest * 3

    given: list[Any] = []
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    whole, _, rest = Parts.apply(x)
    assert whole.stop_gradient
    rest.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert (given[0].tolist() == [0.0, 0.0]) if materialize else given == [None]


def layer(forward: Any, backward: Any) -> type[PyLayer]:
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Own", (PyLayer,), members)


@pytest.mark.parametrize("result", [None, 1, [None, None], [1, 2], ()])
@pytest.mark.parametrize("stop_gradient", [True, False])
def test_forward_returns_a_tensor(result: Any, stop_gradient: bool):
    x = proa.to_tensor([1.0], stop_gradient=stop_gradient)
    with pytest.raises(NotImplementedError, match="forward to return"):
        layer(lambda ctx, x: result, lambda ctx, g: g).apply(x)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda g: None, "gradient of input 0, got None"),
        (lambda g: (None, g), "gradient of input 0, got None"),
        (lambda g: 1, "got 'int'"),
        (lambda g: (g, 1), "gradient of input 1, got 'int'"),
        (lambda g: (g, np.ones(1)), "got 'ndarray'"),
        (lambda g: (g, g, g), "each of 2 tensor inputs, got 3"),
        (lambda g: g, "each of 2 tensor inputs, got 1"),
    ],
)
def test_backward_returns_a_tensor_for_each_input(result: Any, message: str):
    x, y = (proa.to_tensor([1.0], stop_gradient=False) for _ in range(2))
    many = "input 1" in message or "inputs" in message or result(1) == (None, 1)
    many = many or "ndarray" in message
    own = layer(lambda ctx, *a: a[0] * 2, lambda ctx, g: result(g))
    with pytest.raises(ValueError, match=message):
        own.apply(*([x, y] if many else [x])).sum().backward()


def test_backward_may_return_none_for_a_constant():
    x, y = proa.to_tensor([1.0], stop_gradient=False), proa.to_tensor([2.0])
    own = layer(lambda ctx, x, y: x * y, lambda ctx, g: (g * 2, None))
    own.apply(x, y).backward()
    assert x.grad.tolist() == [2.0] and y.grad is None


def test_forward_may_not_change_a_leaf_in_place():
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(proa.ones([1]))
        return x

    x = proa.to_tensor([1.0], stop_gradient=False)
    with pytest.raises(ValueError, match="changed in place"):
        layer(forward, lambda ctx, g: g).apply(x)
    layer(forward, lambda ctx, g: g).apply(x * 1).backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize("method", ["mark_non_differentiable", "mark_not_inplace"])
def test_only_tensors_are_marked(method: str):
    with pytest.raises(TypeError, match=f"{method}.*got 'str'"):
        getattr(PyLayerContext(), method)("x")
