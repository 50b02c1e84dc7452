"""What PaddlePaddle's documentation shows runs with proa, and prints the same numbers.

Its examples are those of a later version, and many draw random numbers: documented.txt
names the functions whose examples must run and agree.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import proa

from . import documented
from .published import as_paddle

LIST = Path(__file__).with_name("documented.txt")
#: file -> names
KNOWN: dict[str, list[str]] = {}
for _line in LIST.read_text().splitlines():
    _file, _name = _line.split()
    KNOWN.setdefault(_file, []).append(_name)
SECONDS = 60


def _run(examples: Sequence[Any], folder: Path, reported: Connection) -> None:
    os.chdir(folder)
    proa.seed(0)
    with as_paddle():
        reported.send(documented.failure(examples))


def outcome(examples: Sequence[Any], folder: Path) -> str | None:
    """`documented.failure` in a process of its own, which examples may leave in any
    state.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(examples, folder, there))
    process.start()
    there.close()
    try:
        if not here.poll(SECONDS):
            return f"no end within {SECONDS} s"
        found: str | None = here.recv()
        return found
    except EOFError:
        return "the process ended"
    finally:
        process.kill()
        process.join()


@pytest.mark.full
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for x86")
@pytest.mark.parametrize("file", sorted(KNOWN))
def test_documented_examples_run_and_print_the_same(file: str, tmp_path: Path) -> None:
    examples = dict(documented.of(documented.sources() / file))
    missing = [name for name in KNOWN[file] if name not in examples]
    assert not missing
    failed = {name: outcome(examples[name], tmp_path) for name in KNOWN[file]}
    assert not {name: why for name, why in failed.items() if why is not None}
