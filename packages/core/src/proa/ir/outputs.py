"""Names of a program's outputs."""

from __future__ import annotations

from collections.abc import Sequence

from proa.errors import InvalidArgumentError
from proa.ir.builder import make_node
from proa.ir.flow import outline
from proa.ir.program import Program


def name_outputs(program: Program, names: Sequence[str]) -> None:
    """Let the outputs have these names, which passes and files keep.

    An output that is an input or a constant of another name, or an array that has one
    of the names already, is copied.

    Raises:
        InvalidArgumentError: If there is not one name for each output, or a name is
            empty or there twice.
    """
    main = program.main
    if len(names) != len(main.outputs):
        raise InvalidArgumentError(
            f"[name_outputs] expected {len(main.outputs)} names, one for each output, "
            f"got {list(names)}"
        )
    if len(set(names)) != len(names) or not all(names):
        raise InvalidArgumentError(
            f"[name_outputs] expected distinct names, got {list(names)}"
        )
    claimed = set()
    for i, name in enumerate(names):
        value = main.outputs[i]
        if value.name == name and value not in claimed:
            claimed.add(value)
            continue
        if value.kind != "node" or value in claimed:
            copy = make_node(program, "assign", [value], {})
            main.nodes.append(copy)
            main.outputs[i] = value = copy.outputs[0]
        claimed.add(value)
    outline(program)
    for block in program.blocks:
        for other in block.values():
            if other.kind == "node" and other.name in names and other not in claimed:
                other.name = program.new_name(other.name)
    for value, name in zip(main.outputs, names, strict=True):
        value.name = name
        program.reserve(name)
