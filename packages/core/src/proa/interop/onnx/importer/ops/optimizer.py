"""Steps of optimizers (the domain ai.onnx.preview.training)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

_DOMAIN = "ai.onnx.preview.training"


def _each(arrays: tuple[Any, ...], kinds: int, step: Callable[..., Any]) -> Any:
    """The results of a step for each parameter, all of one kind together.

    Args:
        arrays: The parameters, then their gradients, then each kind of state.
        kinds: How many arrays a parameter has, itself and its gradient included.
        step: Of these arrays, to the new parameter and its new states.
    """
    count = len(arrays) // kinds
    groups = [arrays[i * count : (i + 1) * count] for i in range(kinds)]
    results = [step(*each) for each in zip(*groups, strict=True)]
    return tuple(value for kind in zip(*results, strict=True) for value in kind)


def _regularized(call: Call, x: Any, gradient: Any) -> Any:
    return gradient + call.get("norm_coefficient", 0.0) * x


@onnx_op("Adagrad", domain=_DOMAIN)
def adagrad(call: Call, rate: Any, count: Any, *arrays: Any) -> Any:
    rate = rate / (1.0 + count.astype(rate.dtype) * call.get("decay_factor", 0.0))
    eps = call.get("epsilon", 1e-6)

    def step(x: Any, gradient: Any, squares: Any) -> Any:
        gradient = _regularized(call, x, gradient)
        squares = squares + gradient * gradient
        return x - rate * gradient / (proa.sqrt(squares) + eps), squares

    return _each(arrays, 3, step)


@onnx_op("Adam", domain=_DOMAIN)
def adam(call: Call, rate: Any, count: Any, *arrays: Any) -> Any:
    alpha, beta = call.get("alpha", 0.9), call.get("beta", 0.999)
    eps, decay = call.get("epsilon", 1e-6), call.get("norm_coefficient_post", 0.0)
    # In float64, in which 1 - beta ** t has its digits.
    t, one = count.astype("float64"), proa.ones(count.shape, "float64")
    unbiased = proa.sqrt(1.0 - (one * beta) ** t) / (1.0 - (one * alpha) ** t)
    unbiased = proa.where(t > 0.0, unbiased, one).astype(rate.dtype)
    rate = rate * unbiased

    def step(x: Any, gradient: Any, mean: Any, squares: Any) -> Any:
        gradient = _regularized(call, x, gradient)
        mean = alpha * mean + (1.0 - alpha) * gradient
        squares = beta * squares + (1.0 - beta) * gradient * gradient
        x = x - rate * mean / (proa.sqrt(squares) + eps)
        return (1.0 - decay) * x, mean, squares

    return _each(arrays, 4, step)


@onnx_op("Momentum", domain=_DOMAIN)
def momentum(call: Call, rate: Any, count: Any, *arrays: Any) -> Any:
    alpha, mode = call.get("alpha"), call.get("mode")
    if mode not in ("standard", "nesterov"):
        raise call.refuse(f"mode {mode}")
    first = proa.equal(count, proa.zeros_like(count))
    beta = proa.where(
        first, proa.ones_like(rate), proa.full_like(rate, call.get("beta"))
    )

    def step(x: Any, gradient: Any, velocity: Any) -> Any:
        gradient = _regularized(call, x, gradient)
        velocity = alpha * velocity + beta * gradient
        along = gradient + alpha * velocity if mode == "nesterov" else velocity
        return x - rate * along, velocity

    return _each(arrays, 3, step)
