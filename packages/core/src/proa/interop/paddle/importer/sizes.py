"""The operators that compute with arrays of sizes, see `proa.interop.graph.sizes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa.interop.graph.sizes import extremes, sliced
from proa.interop.graph.values import Array
from proa.interop.paddle.importer.call import Call
from proa.tensor.symbolic_dims import maximum, minimum


def _numbers(call: Call, name: str, one: Any, many: Any) -> Any:
    if many:
        return [t.reshape(-1)[0] for t in many]
    return call.get(name) if one is None else one.reshape(-1)


def _drop(call: Call, x: Array) -> Array:
    axes = tuple(call.get("decrease_axis") or ())
    return np.squeeze(x, axes) if axes else x


def _slice(call: Call, x: Array, start: Any, end: Any, starts: Any, ends: Any) -> Array:
    low = _numbers(call, "starts", start, starts)
    high = _numbers(call, "ends", end, ends)
    return _drop(call, sliced(x, call.get("axes"), low, high, [1] * len(low)))


def _concat(call: Call, xs: list[Array], axis: Any) -> Array:
    at = call.get("axis", 0) if axis is None else int(axis.reshape(-1)[0])
    return np.concatenate([x.astype(object) for x in xs], at)


def _cast(call: Call, x: Array) -> Any:
    return x if call.get("out_dtype") in (2, 3) else NotImplemented  # int32, int64


def _scale(call: Call, x: Array, factor: Any) -> Any:
    scale, bias = call.get("scale", 1.0), call.get("bias", 0.0)
    if factor is not None or scale != int(scale) or bias != int(bias):
        return NotImplemented
    if call.get("bias_after_scale", True):
        return x * int(scale) + int(bias)
    return (x + int(bias)) * int(scale)


def _axes(call: Call, given: Any = None, each: Any = ()) -> tuple[int, ...]:
    found = _numbers(call, "axes", given, each)
    return tuple(int(n) for n in found or ())


def _reshape(call: Call, x: Array, shape: Any, each: Any) -> Array:
    return x.reshape([int(n) for n in _numbers(call, "shape", shape, each)])


def _product(call: Call, x: Array) -> Array:
    axes = None if call.get("reduce_all", False) else tuple(call.get("dim", [0]))
    found: Array = np.prod(x, axis=axes, keepdims=bool(call.get("keep_dim", False)))
    return found


SIZE_RULES: dict[str, Callable[..., Any]] = {
    "assign": lambda call, x: x,
    "cast": _cast,
    "concat": _concat,
    "elementwise_add": lambda call, x, y: x + y,
    "elementwise_floordiv": lambda call, x, y: x // y,
    "elementwise_max": lambda call, x, y: extremes(maximum, x, y),
    "elementwise_min": lambda call, x, y: extremes(minimum, x, y),
    "elementwise_mul": lambda call, x, y: x * y,
    "elementwise_sub": lambda call, x, y: x - y,
    "gather": lambda call, x, index, axis: np.take(x, index.astype(np.int64), 0),
    "reduce_prod": _product,
    "reshape2": _reshape,
    "scale": _scale,
    "slice": _slice,
    "squeeze2": lambda call, x: np.squeeze(x, _axes(call) or None),
    "stack": lambda call, xs: np.stack(xs, call.get("axis", 0)),
    "unsqueeze2": lambda call, x, one, each: np.expand_dims(x, _axes(call, one, each)),
}
