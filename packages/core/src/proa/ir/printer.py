"""A program as text: one line a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa.ir.attributes import row_of

if TYPE_CHECKING:
    from proa.ir.program import Block, Node, Program, Value


def _attribute(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_node(node: Node) -> str:
    """``%relu_0: float32[?, 6] = relu(%conv2d_0)``, without attributes at defaults."""
    outputs = ", ".join(map(str, node.outputs))
    parts = ["None" if v is None else f"%{v.name}" for v in node.inputs]
    defaults = {a.name: a for a in row_of(node.op).attributes}
    for name, value in node.attrs.items():
        a = defaults[name]
        default = tuple(a.default) if isinstance(a.default, list) else a.default
        if a.required or value != default:
            parts.append(f"{name}={_attribute(value)}")
    chain = f" in chain {node.chain}" if node.chain else ""
    return f"{outputs} = {node.op}({', '.join(parts)}){chain}"


def _constant(value: Value) -> str:
    if value.data is not None and value.data.size == 1 and value.dtype != "bfloat16":
        return f"{value.kind} {value} = {_attribute(value.data.item())}"
    return f"{value.kind} {value}"


def format_block(block: Block, indent: str = "  ") -> str:
    """Constants, inputs, nodes and outputs."""
    lines = [_constant(v) for v in block.constants()]
    lines += [f"input {v}" for v in block.inputs]
    lines += [format_node(n) for n in block.nodes]
    lines.append("return " + ", ".join(f"%{v.name}" for v in block.outputs))
    return "\n".join(indent + line for line in lines)


def format_program(program: Program) -> str:
    """Every block, the model first."""
    return "\n".join(
        f"block {i}:\n{format_block(b)}" for i, b in enumerate(program.blocks)
    )
