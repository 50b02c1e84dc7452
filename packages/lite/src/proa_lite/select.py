"""Builds a runtime library that holds a model's kernels and no others."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from proa_lite.errors import InvalidArgumentError, NotFoundError

#: C compiler, C++ compiler and processor by target; the cross compilers are Debian's.
TARGETS = {
    "native": ("cc", "c++", ""),
    "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "aarch64"),
    "armv7": ("arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-g++", "arm"),
}


def ops_of(models: Sequence[str | PathLike[str]]) -> list[str]:
    """Names of the ops that the models use. Needs the extra ``proa-lite[tools]``."""
    from proa.ir import read

    found: set[str] = set()
    for model in models:
        found |= {node.op for block in read(model).blocks for node in block.nodes}
    return sorted(found)


def build(
    ops: Sequence[str],
    output: Path,
    source: Path,
    target: str = "native",
    isas: Sequence[str] = (),
) -> Path:
    """Compile the library for `target` with those ops (none named: all) into `output`.

    Raises:
        InvalidArgumentError: If the target is unknown or the sources are not there.
        NotFoundError: If a compiler or cmake is missing.
    """
    if target not in TARGETS:
        raise InvalidArgumentError(
            f"[select] target must be one of {', '.join(TARGETS)}, got {target!r}"
        )
    if not (source / "csrc" / "runtime" / "runtime.cc").is_file():
        raise InvalidArgumentError(
            "[select] source must be the folder packages/lite of a checkout, "
            f"got {source}"
        )
    c, cxx, processor = TARGETS[target]
    for tool in (c, cxx, "cmake"):
        if shutil.which(tool) is None:
            raise NotFoundError(
                f"[select] {tool} must be installed, got no such program"
            )
    options = [f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}"]
    if processor:
        options.append("-DCMAKE_SYSTEM_NAME=Linux")
        options.append(f"-DCMAKE_SYSTEM_PROCESSOR={processor}")
    if ops:
        options.append(f"-DPROA_LITE_OPS={','.join(ops)}")
    if isas:
        options.append(f"-DPROA_ISAS={';'.join(isas)}")
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    with tempfile.TemporaryDirectory() as build_folder:
        _run(["cmake", "-S", str(source), "-B", build_folder, *options])
        _run(["cmake", "--build", build_folder, "-j", "2", "--target", "proa_lite"])
        output.mkdir(parents=True, exist_ok=True)
        made = shutil.copy2(Path(build_folder) / "libproa_lite.so", output)
        shutil.copy2(source / "include" / "proa_lite.h", output)
    return Path(made)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise InvalidArgumentError(f"[select] the build must succeed, got:\n{tail}")
