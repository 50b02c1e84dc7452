"""Parts of programs that were loaded or recorded, which hold their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.errors import InvalidTypeError, NotFoundError
from proa.ir import Program
from proa.ir.passes import apply
from proa.jit.traced_layer import TracedLayer
from proa.jit.translated_layer import TranslatedLayer


def program_of(where: str, program: Any) -> Program:
    """The program itself, or that of a TracedLayer or TranslatedLayer."""
    if isinstance(program, (TracedLayer, TranslatedLayer)):
        inner = program.program
        return inner if isinstance(inner, Program) else inner()
    if not isinstance(program, Program):
        raise InvalidTypeError(
            f"[static.{where}] program must be a loaded or recorded one, as graphs are "
            f"recorded by proa.jit.to_static, got {type(program).__name__}"
        )
    return program


def named(where: str, what: str, values: Any) -> list[str]:
    """The names of values of a program: theirs, or the names themselves."""
    several = isinstance(values, Sequence) and not isinstance(values, str)
    found = []
    for v in values if several else [values]:
        name = v if isinstance(v, str) else getattr(v, "name", None)
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"[static.{where}] {what} must be values of the program or names, got "
                f"{type(v).__name__}"
            )
        found.append(name)
    return found


def extract_fetches(where: str, program: Program, fetches: Sequence[str]) -> Program:
    """A copy that computes these values alone, of inputs that they follow from."""
    part = program.copy()
    values = {v.name: v for v in part.main.values()}
    missing = [name for name in fetches if name not in values]
    if missing:
        raise NotFoundError(
            f"[static.{where}] expected fetches of values in the program, got {missing}"
        )
    part.main.outputs = [values[name] for name in fetches]
    part.metadata.pop("outputs", None)
    apply(part, ["remove_dead_code"])
    read = {v for n in part.main.nodes for v in n.inputs} | {*part.main.outputs}
    part.main.inputs = [v for v in part.main.inputs if v in read]
    return part
