"""`recompute`: results computed again in the backward pass in place of being kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from proa._core import Tensor, ops, set_grad_enabled
from proa.autograd import PyLayer, backward
from proa.base.autocast import current, switch
from proa.base.random import get_rng_state, set_rng_state
from proa.errors import InvalidArgumentError

__all__ = ["recompute"]

R = TypeVar("R")


class _Block(PyLayer):
    """A function whose inner results are not kept."""

    _optional_gradients = True

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], _: Any, *args: Any) -> Any:
        ctx.run, ctx.args = run, args
        ctx.autocast, ctx.random = current(), get_rng_state()
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.saved_tensor()  # checks that none was changed in place
        args = [_fresh(a) if isinstance(a, Tensor) else a for a in ctx.args]
        autocast, random, recording = current(), get_rng_state(), set_grad_enabled(True)
        try:
            switch(ctx.autocast)
            if ctx.run.preserves:
                set_rng_state(ctx.random)
            result = ctx.run(*args)
        finally:
            switch(autocast)
            if ctx.run.preserves:
                set_rng_state(random)
            set_grad_enabled(recording)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        outputs = [x for x in outputs if isinstance(x, Tensor)]
        pairs = [
            (x, g)
            for x, g in zip(outputs, grads, strict=True)
            if not x.stop_gradient and g is not None
        ]
        if pairs:
            backward([x for x, _ in pairs], [g for _, g in pairs])
        return (None, *(a.grad for a in args if isinstance(a, Tensor)))


def _fresh(x: Tensor) -> Tensor:
    """The same value as the beginning of a graph of its own."""
    leaf = x.detach()
    leaf.stop_gradient = x.stop_gradient
    return leaf


class _Run:
    """The function, with the arguments given by name after the others."""

    def __init__(
        self, function: Callable[..., Any], names: list[str], preserves: bool
    ) -> None:
        self.function, self.names, self.preserves = function, names, preserves

    def __call__(self, *args: Any) -> Any:
        count = len(args) - len(self.names)
        named = dict(zip(self.names, args[count:], strict=True))
        return self.function(*args[:count], **named)


def recompute(function: Callable[..., R], *args: object, **kwargs: object) -> R:
    """``function(*args, **kwargs)`` without keeping what its backward pass needs.

    The backward pass calls the function again, in the same mode of mixed precision and
    with the same random numbers. That halves the speed of the function's forward pass
    and saves the memory of its inner results (Chen et al., 2016).

    Args:
        function: A Layer or function of tensors. Gradients reach tensors among its
            arguments (not inside lists or dicts) and the parameters that it uses.
        args: Its arguments.
        preserve_rng_state: Whether the second call draws the same random numbers.
        use_reentrant: Kept for callers; has no meaning here.
        kwargs: Its arguments by name.
    """
    if not callable(function):
        raise InvalidArgumentError(
            f"[recompute] function must be callable, got {type(function).__name__}"
        )
    preserves = bool(kwargs.pop("preserve_rng_state", True))
    kwargs.pop("use_reentrant", None)
    run = _Run(function, list(kwargs), preserves)
    # Takes a gradient, so that the block is on the tape even if no argument does.
    mark = ops.full(shape=[0], value=0, dtype="float32")
    mark.stop_gradient = False
    result: R = _Block.apply(run, mark, *args, *kwargs.values())
    return result
