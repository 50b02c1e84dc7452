"""Graphs: programs, their files, and the passes that rewrite them."""

from proa.ir.builder import Builder
from proa.ir.describe import describe, summarise
from proa.ir.file import from_bytes, operator_versions, read, to_bytes, write
from proa.ir.narrow import narrow_weights
from proa.ir.outputs import name_outputs
from proa.ir.program import Block, Node, Program, Value
from proa.ir.verify import verify
from proa.ir.versions import converts

__all__ = [
    "Block",
    "Builder",
    "Node",
    "Program",
    "Value",
    "converts",
    "describe",
    "from_bytes",
    "name_outputs",
    "narrow_weights",
    "operator_versions",
    "read",
    "summarise",
    "to_bytes",
    "verify",
    "write",
]
