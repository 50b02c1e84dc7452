"""Conversion of nodes of earlier operator versions.

A model file holds the version of each operator that it names. A row's `changes` say
what each version after the first changed. Each change has a converter, registered by
`converts`, from the previous version to an equivalent node of the next. They run when
a file is read, so the rest of the library knows the current versions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from proa.errors import InvalidArgumentError, VersionError
from proa.ir.attributes import row_of
from proa.ir.program import Node, Program
from proa.schema import ROWS

#: Rewrites a node in place, its outputs stay; returns nodes that must run before it.
Converter = Callable[[Program, Node], Sequence[Node]]

#: By operator and version; each converts to the next version.
CONVERTERS: dict[tuple[str, int], Converter] = {}


def converts(op: str, version: int) -> Callable[[Converter], Converter]:
    """A decorator that registers a converter of this version of an operator.

    The function receives the program and a node whose attributes were read by the
    current row (appended ones have their defaults). It changes the node's `op`,
    `inputs` and `attrs` to an equivalent node of the next version, and returns nodes
    to insert before it, made by `proa.ir.builder.make_node`.

    Args:
        op: The operator's name.
        version: Version of the nodes that the function is given.

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


def upgrade(program: Program, versions: Mapping[Node, int]) -> None:
    """Convert nodes of earlier versions, which `check_version` has accepted.

    A node that a converter changes to another operator has that one's current version.
    """
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            op, version = node.op, versions.get(node, row_of(node.op).version)
            while node.op == op and version < row_of(op).version:
                nodes += CONVERTERS[op, version](program, node)
                version += 1
            nodes.append(node)
        block.nodes = nodes
