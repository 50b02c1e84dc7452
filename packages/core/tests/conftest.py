"""What holds in every test of core."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
