"""What a pass is, and the pipeline.

A pass is a function Program -> bool: it rewrites the program in place and says whether
it changed anything. Its docstring numbers the cases it handles and states what it
requires and ensures. Every pass requires a program that `verify` accepts, leaves one,
and keeps the results of the program's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proa.errors import NotFoundError
from proa.ir.program import Program

Rewrite = Callable[[Program], bool]
_ROUNDS = 8


@dataclass(frozen=True)
class Pass:
    """A rewrite with its name and the level from which `optimize` uses it."""

    name: str
    level: int
    run: Rewrite


#: The passes in the order in which they run.
PASSES: dict[str, Pass] = {}


def register(level: int) -> Callable[[Rewrite], Rewrite]:
    """Add the function to PASSES under its name."""

    def add(run: Rewrite) -> Rewrite:
        name = run.__name__
        PASSES[name] = Pass(name, level, run)
        return run

    return add


def apply(program: Program, names: Sequence[str]) -> bool:
    """Run the passes of these names in order, again until nothing changes."""
    unknown = [name for name in names if name not in PASSES]
    if unknown:
        raise NotFoundError(
            f"[ir.passes] names must be of {list(PASSES)}, got {unknown}"
        )
    changed_ever = False
    for _ in range(_ROUNDS):
        changed = False
        for name in names:
            changed |= PASSES[name].run(program)
        if not changed:
            break
        changed_ever = True
    return changed_ever


def optimize(program: Program, level: int = 2) -> bool:
    """Rewrite the program to do less.

    Args:
        program: Rewritten in place.
        level: 0 nothing; 1 what keeps every op's result bit-equal; 2 also fusions,
            which may round otherwise; 3 also what changes weights; 4 also chains, of
            which an engine must be told (`chain_spans`): a file does not keep them.

    Returns:
        Whether anything changed.
    """
    return apply(program, [p.name for p in PASSES.values() if p.level <= level])
