"""Rounding what operators without weights read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proa.errors import NotFoundError, VersionError
from proa.ir.attributes import row_of
from proa.ir.program import Node, Program, Value
from proa_slim.config import QuantConfig
from proa_slim.quant.scales import Scale

#: Nodes that round a value.
Rounding = Callable[[Program, Value, Scale], list[Node]]


def operands(program: Program, config: QuantConfig) -> list[Value]:
    """What operators that ``config.operators`` names read in float32, except constants.

    Raises:
        NotFoundError: If there is no operator of a name.
    """
    for name in config.operators:
        try:
            row_of(name)
        except VersionError:
            raise NotFoundError(
                "[QuantConfig] operators must name operators of graphs, as add or "
                f"softmax, got {name!r}"
            ) from None
    found = dict.fromkeys(
        value
        for node in program.main.nodes
        if node.op in config.operators
        for value in _read(node)
    )
    return list(found)


def _read(node: Node) -> list[Value]:
    values = [v for v in node.inputs if v is not None and not v.is_constant]
    return [v for v in values if v.dtype == "float32"]


def round_operands(
    program: Program,
    scales: Mapping[str, Scale],
    config: QuantConfig,
    rounding: Rounding,
) -> None:
    """Let these operators read their operands rounded.

    Args:
        program: Is changed.
        scales: Scales of operands, by name.
        config: Names the operators.
        rounding: Makes the nodes for one of them.
    """
    nodes: list[Node] = []
    rounded: dict[Value, Value] = {}
    for node in program.main.nodes:
        for value in _read(node) if node.op in config.operators else ():
            if value.name not in scales:
                continue
            if value not in rounded:
                nodes += rounding(program, value, scales[value.name])
                rounded[value] = nodes[-1].outputs[0]
            node.inputs = [rounded[v] if v is value else v for v in node.inputs]
        nodes.append(node)
    program.main.nodes = nodes
