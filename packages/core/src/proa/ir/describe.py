"""What a model file holds, for people."""

from __future__ import annotations

import os
from collections import Counter

from proa.ir.file import read
from proa.ir.printer import format_block
from proa.ir.program import Program


def summarise(program: Program) -> str:
    """Metadata, inputs, outputs, weights, ops, and the graph."""
    block = program.main
    lines = [f"{key}: {text}" for key, text in program.metadata.items()]
    lines += [f"input {v}" for v in block.inputs]
    lines += [f"output {v}" for v in block.outputs]
    weights = [v for v in block.constants() if v.data is not None]
    elements = sum(v.data.size for v in weights if v.data is not None)
    size = sum(v.data.nbytes for v in weights if v.data is not None)
    lines.append(f"{len(weights)} weights, {elements} elements, {size} bytes")
    ops = Counter(n.op for b in program.blocks for n in b.nodes)
    lines.append("ops: " + ", ".join(f"{op} x{n}" for op, n in sorted(ops.items())))
    lines.append(format_block(block))
    return "\n".join(lines)


def describe(path: str | os.PathLike[str]) -> str:
    """The text of `proa lite inspect` for a model file."""
    size = os.path.getsize(path)
    return f"{os.fspath(path)}: {size} bytes\n" + summarise(read(path))
