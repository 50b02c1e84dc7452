"""Writes a model as the mobile runtime runs it best. Needs ``proa-lite[tools]``."""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple

from proa.ir import Program, passes, read, write
from proa.ir.attributes import row_of
from proa.ir.flow import is_flow
from proa.ir.inline import inline_calls
from proa_lite.errors import UnimplementedError


class Conversion(NamedTuple):
    """Nodes of the graph before and after."""

    before: int
    after: int


def _ops(program: Program) -> list[str]:
    return [node.op for block in program.blocks for node in block.nodes]


def check_no_flow(program: Program, where: str) -> None:
    """Raise UnimplementedError if the program has branches or loops."""
    flow = {n.op for block in program.blocks for n in block.nodes if is_flow(n)}
    if flow:
        raise UnimplementedError(
            f"[{where}] expected a model without control flow, which the mobile "
            f"runtime does not support, got {', '.join(sorted(flow))}"
        )


def convert(
    model: str | PathLike[str], output: str | PathLike[str], *, level: int = 2
) -> Conversion:
    """Write `model` to `output` after the graph passes, calls of blocks written out.

    Args:
        level: 0 changes nothing, 1 keeps every result bit-equal, 2 also fuses ops.

    Raises:
        UnimplementedError: If the model uses ops that the mobile runtime leaves out,
            or branches or loops.
    """
    program = read(model)
    before = len(_ops(program))
    inline_calls(program)
    check_no_flow(program, "convert")
    passes.optimize(program, level)
    if missing := sorted({op for op in _ops(program) if not row_of(op).lite}):
        raise UnimplementedError(
            "[convert] the model must use ops of the mobile runtime, got "
            + ", ".join(missing)
        )
    write(program, output)
    return Conversion(before, len(_ops(program)))
