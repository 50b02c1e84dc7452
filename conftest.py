"""What the tests of every package share."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from proa.ir import Program


def pytest_configure() -> None:
    # A runner that was started in the background ignores Ctrl-C, and the programs that
    # tests interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _verified(rewrite: Callable[[Program], bool]) -> Callable[[Program], bool]:
    """The pass, followed by the verifier."""
    from proa.ir import verify

    @functools.wraps(rewrite)
    def run(program: Program) -> bool:
        changed = rewrite(program)
        if changed:
            verify(program)
        return changed

    return run


@pytest.fixture(autouse=True, scope="session")
def verified_passes() -> None:
    """Let the verifier run after every graph pass that changes a program."""
    try:
        from proa.ir.passes import PASSES, Pass
    except ImportError:  # packages that are tested without core have no passes
        return
    for name, found in PASSES.items():
        PASSES[name] = Pass(_verified(found.run), found.level)
