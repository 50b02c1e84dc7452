"""`PROA_ISAS=native` builds what the library would choose on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import proa._core

MODULE = Path(__file__).resolve().parents[2] / "cmake" / "portable.cmake"
PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(native LANGUAGES CXX)
include({module})
proa_native_isas(isas)
message(STATUS "isas=${{isas}}.")
"""


def configured(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Configure a project that selects the native instruction sets alone."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    (folder / "CMakeLists.txt").write_text(PROJECT.format(module=MODULE.as_posix()))
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_native_is_the_best_instruction_set_of_this_cpu(tmp_path: Path):
    best = str(proa._core.build_info()["cpu"])
    for _ in range(2):  # a second time from the cache
        done = configured(tmp_path)
        assert done.returncode == 0, done.stderr
        found = re.findall(r"isas=(.*)\.$", done.stdout, re.M)
        assert found == ["neon;neondot" if best == "neondot" else best]


def test_native_is_refused_where_another_machine_is_built_for(tmp_path: Path):
    done = configured(tmp_path, "-DCMAKE_SYSTEM_NAME=Linux")
    assert done.returncode != 0
    assert "expected PROA_ISAS to name" in re.sub(r"\s+", " ", done.stderr)
