"""Runs a program op by op, eagerly, and lets a caller look at values on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from proa import _core
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir.flow import has_flow
from proa.ir.program import Array, Program, Value

#: Called with each value that a node made.
Watch = Callable[[Value, Array], None]


def interpret(
    program: Program, inputs: Sequence[Array], watch: Watch | None = None
) -> list[Array]:
    """Outputs of the program's main block for `inputs`.

    Raises:
        InvalidArgumentError: If the number of inputs is not the program's.
        UnimplementedError: If the program has branches or loops.
    """
    if has_flow(program):
        raise UnimplementedError(
            "[quant] the network must be without control flow to be measured, got a "
            "branch or loop that follows from its input"
        )
    block = program.main
    if len(inputs) != len(block.inputs):
        raise InvalidArgumentError(
            f"[interpret] there must be {len(block.inputs)} inputs, got {len(inputs)}"
        )
    tensors: dict[Value, Any] = {}
    for value in block.constants():
        assert value.data is not None
        tensors[value] = _core.from_numpy(np.ascontiguousarray(value.data), True)
    for value, array in zip(block.inputs, inputs, strict=True):
        tensors[value] = _core.from_numpy(np.ascontiguousarray(array), True)
        if watch is not None:
            watch(value, np.asarray(array))
    enabled = _core.set_grad_enabled(False)
    try:
        for node in block.nodes:
            arguments = [None if v is None else tensors[v] for v in node.inputs]
            made = getattr(_core.ops, node.op)(*arguments, **node.attrs)
            results = made if isinstance(made, (tuple, list)) else (made,)
            for value, tensor in zip(node.outputs, results, strict=True):
                tensors[value] = tensor
                if watch is not None:
                    watch(value, tensor.numpy())
        return [np.array(tensors[v].numpy()) for v in block.outputs]
    finally:
        _core.set_grad_enabled(enabled)
