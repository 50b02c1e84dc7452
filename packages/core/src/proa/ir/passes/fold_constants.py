from __future__ import annotations

from typing import Any

import numpy as np

from proa.errors import Error
from proa.ir.attributes import draws, row_of
from proa.ir.program import NUMPY_TYPES, Array, Node, Program, Value

_LARGEST = 1 << 20  # bytes that folding may add beyond what the inputs hold


def _evaluate(node: Node) -> list[Array]:
    """The node's outputs by the eager op."""
    from proa import _core

    arrays = [
        None if v is None or v.data is None else _core.from_numpy(v.data, True)
        for v in node.inputs
    ]
    enabled = _core.set_grad_enabled(False)
    try:
        result: Any = getattr(_core.ops, node.op)(*arrays, **node.attrs)
    finally:
        _core.set_grad_enabled(enabled)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [np.ascontiguousarray(r.numpy()).reshape(r.shape) for r in results]


def _bytes(value: Value) -> int:
    size = int(np.dtype(NUMPY_TYPES[value.dtype]).itemsize)
    for d in value.shape:
        size *= d
    return size


def _foldable(node: Node) -> bool:
    given = [v for v in node.inputs if v is not None]
    for v in given:
        if not v.is_constant:
            return False
    row = row_of(node.op)
    if row.kind == "flow" or row.calls_python or draws(node.op, node.attrs):
        return False
    if any(v.dtype == "bfloat16" for v in (*given, *node.outputs)):
        return False
    if any(-1 in v.shape for v in node.outputs):
        return False
    size = sum(v.data.nbytes for v in given if v.data is not None)
    return sum(map(_bytes, node.outputs)) <= size + _LARGEST


def fold_constants(program: Program) -> bool:
    """Compute ahead what depends on constants alone.

    1. A node whose inputs are all constants or parameters (or that has none) is run by
       the eager op and its outputs become constants, unless it is random, a Python
       function, of bfloat16, or would add more than 1 MB to what its inputs hold.

    Ensures that views of weights (a transposed matrix) are weights themselves.
    """
    changed = False
    for block in program.blocks:
        nodes = []
        for node in block.nodes:
            if not _foldable(node):
                nodes.append(node)
                continue
            try:
                arrays = _evaluate(node)
            except (Error, ValueError, NotImplementedError):
                nodes.append(node)  # its error belongs to the run
                continue
            for value, array in zip(node.outputs, arrays, strict=True):
                value.kind, value.data, value.producer = "const", array, None
                value.shape = array.shape
            changed = True
        block.nodes = nodes
    return changed
