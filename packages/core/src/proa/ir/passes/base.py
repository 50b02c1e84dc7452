"""What a pass is.

A pass is a function Program -> bool: it rewrites the program in place and says whether
it changed anything. Its docstring numbers the cases it handles and states what it
requires and ensures. Every pass requires a program that `verify` accepts, leaves one,
and keeps the results of the program's outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proa.ir.program import Program

Rewrite = Callable[[Program], bool]


@dataclass(frozen=True)
class Pass:
    """A rewrite and the level from which `optimize` uses it."""

    run: Rewrite
    level: int

    @property
    def name(self) -> str:
        """The function's name."""
        return self.run.__name__
