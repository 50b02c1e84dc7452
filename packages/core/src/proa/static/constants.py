"""Values of Variables that are known when a program is built."""

from __future__ import annotations

import math

import numpy as np

from proa._core import Tensor, ops
from proa.errors import Error
from proa.ir.program import Value
from proa.tensor.creation import to_tensor

#: Nodes that a value may follow from, one after another.
_DEPTH = 64
#: Operators of a few numbers, as counters and indices are made.
_OPERATORS = ("add", "assign", "cast", "floor_div", "mul", "reshape", "scale", "sub")
#: Elements of values that are looked at.
_SIZE = 64


def known_value(tensor: Tensor) -> Tensor | None:
    """The value that follows from constants alone; None if there are other inputs."""
    return _known(tensor._handle[1], _DEPTH)


def _known(value: Value, depth: int) -> Tensor | None:
    if min(value.shape, default=1) < 0 or math.prod(value.shape) > _SIZE:
        return None
    node = value.producer
    if node is None or depth == 0:
        data = value.data if value.kind == "const" else None
        return None if data is None else to_tensor(np.array(data))
    if node.op == "full":
        shape, dtype = node.attrs["shape"], value.dtype
        return to_tensor(np.full(shape, node.attrs["value"], dtype))
    if node.op not in _OPERATORS:
        return None
    inputs = [None if v is None else _known(v, depth - 1) for v in node.inputs]
    if any(x is None for x in inputs):
        return None
    try:
        found: Tensor = getattr(ops, node.op)(*inputs, **node.attrs)
    except Error:
        return None
    return found
