"""Operators on arrays of sizes, so that symbolic dimensions stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa.interop.graph.call import Call
from proa.interop.graph.table import Rule
from proa.interop.graph.values import (
    Array,
    as_host,
    is_sizes,
    is_symbolic,
    simplified,
)


def sliced(x: Array, axes: Any, starts: Any, ends: Any, steps: Any) -> Array:
    """The elements from starts to ends along axes."""
    at: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else int(end)
        at[int(axis)] = slice(int(start), stop, int(step))
    found: Array = x[tuple(at)]
    return found


def extremes(of_two: Callable[[Any, Any], Any], *xs: Array) -> Any:
    """The minima or maxima of arrays, element by element.

    NotImplemented if `of_two` finds none for some of the sizes.
    """
    columns = np.broadcast(*xs)
    found = np.empty(columns.shape, object)
    for at, (first, *others) in zip(np.ndindex(columns.shape), columns, strict=True):
        for other in others:
            first = of_two(first, other)
            if first is None:
                return NotImplemented
        found[at] = first
    return found


def on_sizes(rule: Rule | None, call: Call, inputs: list[Any]) -> Any:
    """What an operator's rule makes of arrays with symbolic dimensions.

    NotImplemented if there are none among the inputs or it has no rule.
    """
    if rule is None or not any(map(is_sizes, inputs)) or any(map(is_symbolic, inputs)):
        return NotImplemented
    arrays = [None if x is None else as_host(x, call.place) for x in inputs]
    if any(a is not None and a.dtype.kind == "f" for a in arrays):
        return NotImplemented
    # Python's integers: those of NumPy would compute with a symbolic -1 themselves
    found = rule(call, *(None if a is None else a.astype(object) for a in arrays))
    if found is NotImplemented:
        return found
    if isinstance(found, tuple):
        return tuple(simplified(array) for array in found)
    return simplified(found)
