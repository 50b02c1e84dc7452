"""Operators on arrays of sizes, so that symbolic dimensions stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa.onnx.call import Call
from proa.onnx.values import Array, as_host, is_sizes, is_symbolic, simplified


def _quotient(x: Array, y: Array) -> Array:
    found: Array = x // y  # sizes are positive: rounding down is rounding to zero
    return found


def _gather(call: Call, x: Array, index: Array) -> Array:
    found: Array = np.take(x, index.astype(np.int64), call.get("axis", 0))
    return found  # a size itself where the index has no axes


def _slice(call: Call, x: Array, *more: Array) -> Array:
    if call.opset < 10:
        starts, ends = call.get("starts"), call.get("ends")
        axes, steps = call.get("axes"), None
    else:
        starts, ends, axes, steps = (
            None if i >= len(more) or more[i] is None else more[i].tolist()
            for i in range(4)
        )
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    at: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else int(end)
        at[int(axis)] = slice(int(start), stop, int(step))
    found: Array = x[tuple(at)]
    return found


def _axes(call: Call, given: Array | None) -> Any:
    found = call.get("axes") if given is None else given.tolist()
    return None if found is None else tuple(int(n) for n in np.reshape(found, -1))


def _squeeze(call: Call, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, _axes(call, axes))


def _unsqueeze(call: Call, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(call, axes))


def _concat(call: Call, *xs: Array) -> Array:
    return np.concatenate([x.astype(object) for x in xs], call.get("axis"))


def _reshape(call: Call, x: Array, shape: Array) -> Array:
    return x.reshape([int(n) for n in shape])


def _product(call: Call, x: Array, axes: Array | None = None) -> Array:
    keep = bool(call.get("keepdims", 1))
    found: Array = np.prod(x, axis=_axes(call, axes), keepdims=keep)
    return found


def _where(call: Call, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition.astype(bool), x, y)


def _cast(call: Call, x: Array) -> Any:
    return x if call.get("to") in (6, 7) else NotImplemented  # int32, int64


_RULES: dict[str, Callable[..., Any]] = {
    "Add": lambda call, x, y: x + y,
    "Cast": _cast,
    "Concat": _concat,
    "Div": lambda call, x, y: _quotient(x, y),
    "Equal": lambda call, x, y: np.equal(x, y),
    "Gather": _gather,
    "Identity": lambda call, x: x,
    "Mul": lambda call, x, y: x * y,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda call, x, y: x - y,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}


def on_sizes(call: Call, inputs: list[Any]) -> Any:
    """What the operator makes of arrays with symbolic dimensions.

    NotImplemented if there are none among the inputs or it is not computed so.
    """
    rule = _RULES.get(call.op)
    if rule is None or not any(map(is_sizes, inputs)) or any(map(is_symbolic, inputs)):
        return NotImplemented
    arrays = [None if x is None else as_host(x, call.place) for x in inputs]
    if any(a is not None and a.dtype.kind == "f" for a in arrays):
        return NotImplemented
    # Python's integers: those of NumPy would compute with a symbolic -1 themselves
    found = rule(call, *(None if a is None else a.astype(object) for a in arrays))
    return found if found is NotImplemented else simplified(found)
