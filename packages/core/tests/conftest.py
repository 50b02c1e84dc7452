"""What holds in every test of core."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from proa.ir import Program, verify
from proa.ir.passes import PASSES, Pass


def _verified(rewrite: Callable[[Program], bool]) -> Callable[[Program], bool]:
    """The pass, followed by the verifier."""

    @functools.wraps(rewrite)
    def run(program: Program) -> bool:
        changed = rewrite(program)
        if changed:
            verify(program)
        return changed

    return run


@pytest.fixture(autouse=True, scope="session")
def verified_passes() -> None:
    """Let the verifier run after every pass that changes a program."""
    for name, found in PASSES.items():
        PASSES[name] = Pass(_verified(found.run), found.level)
