"""Operators of graphs whose forward and backward are Python functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from proa import _core
from proa._core import Tensor
from proa.autograd import PyLayer
from proa.base.dtype import as_dtype
from proa.base.mode import in_dynamic_mode, static_builder
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PreconditionNotMetError,
    ShapeError,
    UnimplementedError,
)
from proa.ir.record import is_in_graph
from proa.jit.python_calls import Callback, Size, call_python
from proa.static.variable import Variable

__all__ = ["py_func"]

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


class _Differentiated(PyLayer):
    _optional_gradients = True

    @staticmethod
    def forward(ctx: Any, call: Any, *inputs: Tensor) -> Any:
        ctx.call = call
        ctx.saved = call.forward(inputs)
        ctx.inputs = inputs
        return tuple(ctx.saved)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return tuple(ctx.call.backward(ctx.inputs, ctx.saved, grads))


class _Undifferentiated(PyLayer):
    """Gradients that a Python function made of arrays, which have none themselves."""

    @staticmethod
    def forward(ctx: Any, name: str, found: list[Tensor], *given: Tensor) -> Any:
        ctx.name = name
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise UnimplementedError(
            "[py_func] gradients of gradients must depend on tensors that "
            f"{ctx.name} computes with, got arrays"
        )


@dataclass
class _Call:
    """One call of `py_func`: its functions, and what the backward one is not given."""

    func: Function
    shapes: list[list[int]]
    dtypes: list[str]
    backward_func: Function | None
    skipped: set[int]  # numbers of inputs, then outputs

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        shapes = tuple(
            tuple((0, axis) if size < 0 else size for axis, size in enumerate(shape))
            for shape in self.shapes
        )
        count = len(inputs)
        for shape in shapes:
            if any(s[1] >= inputs[0].ndim for s in shape if isinstance(s, tuple)):
                raise ShapeError(
                    "py_func",
                    "a symbolic dimension of out must be that of the same axis of x",
                    inputs[0].shape,
                )
        return call_python(
            Callback(self.func, shapes, tuple(self.dtypes), count), list(inputs)
        )

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], grads: Any
    ) -> list[Tensor]:
        assert self.backward_func is not None
        known = (*inputs, *outputs)
        given = [t for i, t in enumerate(known) if i not in self.skipped]
        given += grads
        count = len(given)
        shapes: list[tuple[Size, ...]] = []
        for x in inputs:
            sizes = tuple(map(_size, x.shape))
            if -1 in sizes:
                given.append(x)
            at = len(given) - 1
            shapes.append(tuple((at, k) if s < 0 else s for k, s in enumerate(sizes)))
        dtypes = tuple(x.dtype.name for x in inputs)
        back = Callback(self.backward_func, tuple(shapes), dtypes, count)
        found = call_python(back, given)
        differentiable = _core.is_grad_enabled() and any(
            not t.stop_gradient for t in given
        )
        if differentiable and all(t.stop_gradient for t in found):
            found = list(_Undifferentiated.apply(back.name, found, *given))
        return found


def _size(size: Any) -> int:
    """The size; -1 if it is symbolic."""
    return size if isinstance(size, int) else -1


def _listed(name: str, given: Any) -> list[Any]:
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    for value in found:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise InvalidTypeError(
                f"[py_func] {name} must be a Tensor or a list or tuple of Tensors, "
                f"got {type(value).__name__}"
            )
    return found


def _skipped_indices(given: Any, known: Sequence[Any]) -> set[int]:
    skipped = [] if given is None else _listed("skip_vars_in_backward_input", given)
    numbers = {i for s in skipped for i, t in enumerate(known) if t is s}
    if any(all(t is not s for t in known) for s in skipped):
        raise InvalidArgumentError(
            "[py_func] expected skip_vars_in_backward_input among x and out, got "
            "another tensor"
        )
    return numbers


def _fill(out: Sequence[Any], results: Sequence[Tensor]) -> None:
    for held, result in zip(out, results, strict=True):
        if not isinstance(held, Tensor):
            continue
        builder = static_builder() if held._is_symbolic else None
        if builder is not None:
            builder.assign(result, held)
        elif not (held._is_symbolic or result._is_symbolic):
            held.set_value(result.detach())


def _of_graphs(function: F) -> F:
    """The function, which tells a call from dynamic mode whatever it is given."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if in_dynamic_mode() and not is_in_graph():
            raise PreconditionNotMetError(
                "[static.py_func] expected a call while a graph is recorded, by "
                "proa.jit.to_static or in static mode, got one in dynamic mode; use "
                "proa.autograd.PyLayer there"
            )
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]  # the same signature


@_of_graphs
def py_func(
    func: Function,
    x: Tensor | Sequence[Tensor],
    out: Any,
    backward_func: Function | None = None,
    skip_vars_in_backward_input: Any = None,
) -> Any:
    """``func(*x)``, an operator in Python, with ``backward_func`` for gradients.

    It is part of graphs: while `proa.jit.to_static` records one, it runs whenever the
    graph runs, in the process that recorded it; after `proa.enable_static`, at once. In
    dynamic mode use `proa.autograd.PyLayer`. Functions take Tensors (`numpy()` and
    NumPy's functions make arrays of them) and return arrays or Tensors.

    Args:
        func: Takes the tensors of x; returns as many results as out has.
        x: A Tensor, or a list or tuple of them.
        out: What results are like: a Tensor, an `InputSpec`, or a list or tuple of
            them; None if func returns nothing. A size of -1 is that of the first
            tensor of x. Tensors are filled with results where these are computed at
            once; Variables, such as those of `Block.create_var`, stand for them.
        backward_func: Takes x, the results and the results' gradients; returns a
            gradient (or None for zeros) for each tensor of x. Without it no gradient
            flows.
        skip_vars_in_backward_input: Those of x and out that backward_func is not given.

    Returns:
        The results: one, a list of them, or None.

    Raises:
        PreconditionNotMetError: In dynamic mode, where no graph is recorded.
        InvalidTypeError: If an argument is not of these kinds.
        InvalidArgumentError: If a function returns another number, shape or dtype than
            announced.
    """
    for name, function in (("func", func), ("backward_func", backward_func)):
        if not callable(function) and not (
            name == "backward_func" and function is None
        ):
            raise InvalidTypeError(
                f"[py_func] {name} must be a function, got {type(function).__name__}"
            )
    inputs = _listed("x", x)
    like = [] if out is None else _listed("out", out)
    for held in like:
        if isinstance(held, Variable) and held._handle[1] in held.program.unshaped:
            raise InvalidArgumentError(
                f"[py_func] expected out with a shape, got {held.name!r}, made by "
                "create_var without one"
            )
    call = _Call(
        func,
        [list(map(_size, t.shape)) for t in like],
        [as_dtype(t.dtype).name for t in like],
        backward_func,
        _skipped_indices(skip_vars_in_backward_input, [*inputs, *like]),
    )
    wanted = backward_func is not None and any(not t.stop_gradient for t in inputs)
    results: list[Tensor]
    if wanted and _core.is_grad_enabled():
        results = list(_Differentiated.apply(call, *inputs))
    else:
        enabled = _core.set_grad_enabled(False)
        try:
            results = [r.detach() for r in call.forward(inputs)]
        finally:
            _core.set_grad_enabled(enabled)
    _fill(like, results)
    if out is None:
        return None
    return results if isinstance(out, (list, tuple)) else results[0]
