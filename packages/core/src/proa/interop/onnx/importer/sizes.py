"""The operators that compute with arrays of sizes, see `proa.interop.graph.sizes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa.interop.graph.sizes import extremes, sliced
from proa.interop.graph.values import Array
from proa.interop.onnx.importer.call import Call
from proa.tensor.symbolic_dims import maximum, minimum, same_size


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
    return sliced(x, axes, starts, ends, steps)


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


def _equal(call: Call, x: Array, y: Array) -> Any:
    """Whether sizes are equal, where that is known: of an open one and 1 it is not."""
    pairs = np.broadcast(x, y)
    found = [same_size(a, b) for a, b in pairs]
    if any(answer is None for answer in found):
        return NotImplemented
    return np.array(found, bool).reshape(pairs.shape)


def _transpose(call: Call, x: Array) -> Array:
    return np.transpose(x, call.get("perm"))


def _cast(call: Call, x: Array) -> Any:
    return x if call.get("to") in (6, 7) else NotImplemented  # int32, int64


SIZE_RULES: dict[str, Callable[..., Any]] = {
    "Add": lambda call, x, y: x + y,
    "Cast": _cast,
    "Concat": _concat,
    "Div": lambda call, x, y: _quotient(x, y),
    "Equal": _equal,
    "Gather": _gather,
    "Identity": lambda call, x: x,
    "Max": lambda call, *xs: extremes(maximum, *xs),
    "Min": lambda call, *xs: extremes(minimum, *xs),
    "Mod": lambda call, x, y: x % y,
    "Mul": lambda call, x, y: x * y,
    "Neg": lambda call, x: -x,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda call, x, y: x - y,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
