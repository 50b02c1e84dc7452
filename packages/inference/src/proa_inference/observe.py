"""Every array that a model computes, not its outputs alone."""

from __future__ import annotations

from proa.errors import UnimplementedError
from proa.ir import Program
from proa_inference.partition import has_control_flow


def observed_outputs(program: Program) -> list[str]:
    """Append every computed array to the program's outputs; returns their operators.

    Raises:
        UnimplementedError: If the program has branches or loops.
    """
    if has_control_flow(program):
        raise UnimplementedError(
            "[observed_outputs] expected a model without branches and loops, got one "
            "with them"
        )
    results = [(n.op, v) for n in program.main.nodes for v in n.outputs]
    program.main.outputs = [*program.main.outputs, *(value for _, value in results)]
    return [op for op, _ in results]
