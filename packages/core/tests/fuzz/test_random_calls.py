"""Whatever the public API is called with, it answers or raises an error that names it.

Each case runs in a child process with a limit of memory and of time a call, see
random_calls.py, which also reruns one: ``python random_calls.py 12345 1``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("random_calls.py")


def failures(first: int, count: int) -> list[str]:
    """What is wrong with the cases from `first` on, a process that ends included."""
    found: list[str] = []
    end = first + count
    while first < end:
        done = subprocess.run(
            [sys.executable, str(CHILD), str(first), str(end - first)],
            env={**os.environ, "PROA_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = done.stdout.splitlines()
        found += [line for line in lines if line.startswith("failed ")]
        if done.returncode == 0:
            break
        last = next((s for s in reversed(lines) if s.startswith("at ")), None)
        assert last is not None, done.stderr[-2000:]
        found.append(f"ended {done.returncode} {last}: {done.stderr[-600:]}")
        first = int(last.split()[1]) + 1
    return found


@pytest.mark.feature("L269")
def test_every_public_name_raises_errors_that_name_it():
    assert not failures(0, 1200)


@pytest.mark.full
@pytest.mark.fuzz
@pytest.mark.parametrize("group", range(10))
def test_many_random_calls_raise_errors_that_name_the_api(group: int):
    assert not failures(1_000_000 + group * 20_000, 20_000)
