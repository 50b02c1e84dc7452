"""Runs a program op by op, eagerly, and lets a caller look at values on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir.flow import has_flow
from proa.ir.program import Array, Program, Value
from proa.runtime import call_operator

#: Called with each value that a node made.
Watch = Callable[[Value, Array], None]


def interpret(
    program: Program,
    inputs: Sequence[Array],
    watch: Watch | None = None,
    forced: Mapping[str, Array] | None = None,
) -> list[Array]:
    """Outputs of the program's main block for `inputs`.

    Args:
        program: The graph.
        inputs: One array for each of its inputs.
        watch: Called with every value as it is computed.
        forced: By name, arrays that later nodes read instead of the computed ones.

    Raises:
        InvalidArgumentError: If the number of inputs is not the program's.
        UnimplementedError: If the program has branches or loops.
    """
    if has_flow(program):
        raise UnimplementedError(
            "[quant] expected a network without control flow, got a branch or loop "
            "that depends on its input"
        )
    block = program.main
    if len(inputs) != len(block.inputs):
        raise InvalidArgumentError(
            f"[interpret] expected {len(block.inputs)} inputs, got {len(inputs)}"
        )
    tensors: dict[Value, Any] = {}
    for value in block.constants():
        assert value.data is not None
        tensors[value] = proa.to_tensor(np.ascontiguousarray(value.data))
    for value, array in zip(block.inputs, inputs, strict=True):
        tensors[value] = proa.to_tensor(np.ascontiguousarray(array))
        if watch is not None:
            watch(value, np.asarray(array))
    with proa.no_grad():
        for node in block.nodes:
            arguments = [None if v is None else tensors[v] for v in node.inputs]
            results = call_operator(node.op, *arguments, **node.attrs)
            for value, tensor in zip(node.outputs, results, strict=True):
                tensors[value] = tensor
                if watch is not None:
                    watch(value, tensor.numpy())
                if forced is not None and value.name in forced:
                    tensors[value] = proa.to_tensor(forced[value.name])
        return [np.array(tensors[v].numpy()) for v in block.outputs]
