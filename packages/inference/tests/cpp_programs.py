"""Builds programs in C and C++ against the CMake package of the installed library."""

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
needs_cpp = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None,
    reason="needs CMake and a C++ compiler",
)
_PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(checks LANGUAGES C CXX)
find_package(proa_inference 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable({name} {source})
target_compile_options({name} PRIVATE -Wall -Wextra -Werror)
target_link_libraries({name} PRIVATE proa::inference Threads::Threads m)
set_target_properties({name} PROPERTIES CXX_STANDARD 14 CXX_STANDARD_REQUIRED ON
                      C_STANDARD 99 C_STANDARD_REQUIRED ON)
"""


def run(*command: object) -> str:
    """What the command prints; an assertion that it succeeds."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_project(source: Path, folder: Path) -> Path:
    """Builds a CMake project; returns the folder of its programs."""
    package = Path(str(files("proa_inference"))) / "cmake"
    run("cmake", "-S", source, "-B", folder, f"-Dproa_inference_DIR={package}")
    run("cmake", "--build", folder)
    return folder


def built(name: str, folder: Path) -> Path:
    """The program of a file of csrc/tests."""
    source = ROOT / "csrc" / "tests" / name
    text = _PROJECT.format(name=source.stem, source=source)
    (folder / "CMakeLists.txt").write_text(text)
    return built_project(folder, folder / "build") / source.stem
