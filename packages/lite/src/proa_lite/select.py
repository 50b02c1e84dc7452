"""Builds a runtime library that holds a model's kernels and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proa_lite.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from proa.ir.program import Node

#: C compiler, C++ compiler and processor by target; the cross compilers are Debian's.
TARGETS = {
    "native": ("cc", "c++", ""),
    "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "aarch64"),
    "armv7": ("arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-g++", "arm"),
}


class Selection(NamedTuple):
    """What a library must contain; empty lists mean everything."""

    ops: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    winograd: bool = True  # Winograd's algorithm for wide 3 x 3 convolutions
    depthwise: bool = True  # a path of their own for depthwise convolutions


def selection_of(models: Sequence[str | PathLike[str]]) -> Selection:
    """The ops and dtypes of the models. Needs the extra ``proa-lite[tools]``.

    Raises:
        UnimplementedError: If a model has branches or loops.
    """
    from proa.ir import read
    from proa_lite.convert import check_no_flow

    ops: set[str] = set()
    dtypes: set[str] = set()
    winograd = depthwise = False
    for model in models:
        program = read(model)
        check_no_flow(program, "select")
        for block in program.blocks:
            ops |= {node.op for node in block.nodes}
            dtypes |= {value.dtype for value in block.values()}
            winograd |= any(_uses_winograd(node) for node in block.nodes)
            depthwise |= any(node.attrs.get("groups", 1) != 1 for node in block.nodes)
    return Selection(sorted(ops), sorted(dtypes), winograd, depthwise)


def _uses_winograd(node: Node) -> bool:
    from proa.runtime import suits_winograd
    from proa.schema import ROWS

    row, attrs = ROWS.get(node.op), node.attrs
    if row is None or row.family != "conv" or "groups" not in attrs:
        return False
    weight = node.inputs[1]
    assert weight is not None
    return suits_winograd(
        weight.dtype, weight.shape, attrs["stride"], attrs["dilation"], attrs["groups"]
    )


def build(
    selection: Selection,
    output: Path,
    source: Path,
    target: str = "native",
    isas: Sequence[str] = (),
) -> Path:
    """Compile the library with the selection for `target` into `output`.

    Args:
        source: The folder packages/lite of a checkout.
        isas: Only these instruction sets; by default those of the target's usual CPUs.

    Raises:
        InvalidArgumentError: If the target is unknown or the sources are not there.
        NotFoundError: If a compiler or cmake is missing.
    """
    options = _toolchain(target)
    if not (source / "csrc" / "runtime" / "runtime.cc").is_file():
        raise InvalidArgumentError(
            "[select] source must be the folder packages/lite of a checkout, "
            f"got {source}"
        )
    if selection.ops:
        options.append(f"-DPROA_LITE_OPS={','.join(selection.ops)}")
    if selection.dtypes:
        options.append(f"-DPROA_LITE_DTYPES={';'.join(selection.dtypes)}")
    if not selection.winograd:
        options.append("-DPROA_LITE_WINOGRAD=OFF")
    if not selection.depthwise:
        options.append("-DPROA_LITE_DEPTHWISE=OFF")
    if isas:
        options.append(f"-DPROA_ISAS={';'.join(isas)}")
    with tempfile.TemporaryDirectory() as folder:
        _run(["cmake", "-S", str(source), "-B", folder, *options])
        jobs = str(os.cpu_count() or 1)
        _run(["cmake", "--build", folder, "-j", jobs, "--target", "proa_lite"])
        output.mkdir(parents=True, exist_ok=True)
        result = shutil.copy2(Path(folder) / "libproa_lite.so", output)
        shutil.copy2(source / "include" / "proa_lite.h", output)
    return Path(result)


def _toolchain(target: str) -> list[str]:
    """CMake's options for the target's compilers."""
    if target not in TARGETS:
        raise InvalidArgumentError(
            f"[select] target must be one of {', '.join(TARGETS)}, got {target!r}"
        )
    c, cxx, processor = TARGETS[target]
    for tool in (c, cxx, "cmake"):
        if shutil.which(tool) is None:
            raise NotFoundError(f"[select] {tool} is not installed")
    options = [f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}"]
    if processor:
        options.append("-DCMAKE_SYSTEM_NAME=Linux")
        options.append(f"-DCMAKE_SYSTEM_PROCESSOR={processor}")
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    return options


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise InvalidArgumentError(f"[select] the build failed:\n{tail}")
