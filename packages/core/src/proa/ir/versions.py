"""Operators whose meaning has changed: how nodes of earlier versions are converted.

A model file holds the version of each operator that it names. A row's `changes` say
what each version after the first changed; for each there is a converter here, which
makes of a node of that version one of the next that computes the same. Reading a file
runs them, so that everything after it knows one meaning of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from proa.errors import InvalidArgumentError, VersionError
from proa.ir.attributes import row_of
from proa.ir.program import Node, Program
from proa.schema import ROWS

#: Rewrites a node in place, its outputs stay; returns nodes that must run before it.
Converter = Callable[[Program, Node], Sequence[Node]]

#: By operator and the version that is converted, to the next.
CONVERTERS: dict[tuple[str, int], Converter] = {}


def converts(op: str, version: int) -> Callable[[Converter], Converter]:
    """A decorator that lets a function convert nodes of this version of an operator.

    The function is called with the program and a node whose attributes are read by
    today's row (those that were appended have their defaults). It changes the node's
    `op`, `inputs` and `attrs` so that it computes by the next version what it meant,
    and returns nodes that it needs before it, made by `proa.ir.builder.make_node`.

    Args:
        op: The operator's name.
        version: Of the nodes that the function is given.

    Raises:
        InvalidArgumentError: If there is no such operator, its version is not later, or
            a converter is there already.
    """
    row = ROWS.get(op)
    if row is None or not 0 <= version < row.version or (op, version) in CONVERTERS:
        held = "none" if row is None else f"version {row.version}"
        raise InvalidArgumentError(
            "[ir.converts] expected an operator, an earlier version of it and no "
            f"converter yet, got {op!r} of {held}, converted from {version}"
        )

    def register(convert: Converter) -> Converter:
        CONVERTERS[op, version] = convert
        return convert

    return register


def check_version(op: str, version: int, where: str) -> None:
    """Raise VersionError unless nodes of this version can be read."""
    row = row_of(op)
    if version == row.version:
        return
    start = f"[{where}] {op} must have version {row.version}, got {version}"
    if version > row.version:
        raise VersionError(f"{start}: a newer version of Proa wrote it")
    for step in range(version, row.version):
        if (op, step) not in CONVERTERS:
            raise VersionError(f"{start}, and nothing converts version {step}")


def upgrade(program: Program, former: Mapping[Node, int]) -> None:
    """Let nodes of earlier versions be of today's; `check_version` has accepted them.

    A node whose operator a converter replaces is of that operator's version today.
    """
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            op, version = node.op, former.get(node, row_of(node.op).version)
            while node.op == op and version < row_of(op).version:
                nodes += CONVERTERS[op, version](program, node)
                version += 1
            nodes.append(node)
        block.nodes = nodes
