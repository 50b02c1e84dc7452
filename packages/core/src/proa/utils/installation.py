"""What is installed here, and what of it the CPU runs: the lines of `proa info`."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import proa
from proa import _core
from proa.base.processor import cpu_model

#: The extras of this package, and a module that each brings.
EXTRAS = {
    "vision": "PIL", "onnx": "onnx", "paddle": "google.protobuf", "migrate": "libcst",
}  # fmt: skip


def report() -> dict[str, str]:
    """Packages, machine, instruction sets, devices and extras, in this order."""
    return packages() | machine() | engine() | features()


def packages() -> dict[str, str]:
    """The versions of Proa's installed distributions, of Python and of NumPy.

    Proa's are this one and those whose name is ``proa-`` and a word.
    """
    found = {"proa": version_of("proa")}
    names = {dist.name or "" for dist in metadata.distributions()}
    found |= {n: version_of(n) for n in sorted(names) if n.startswith("proa-")}
    found["python"] = f"{platform.python_version()} ({sys.executable})"
    return found | {"numpy": version_of("numpy")}


def version_of(wheel: str) -> str:
    """The version of an installed distribution, this one's in a source tree too."""
    try:
        return metadata.version(wheel)
    except metadata.PackageNotFoundError:
        return proa.__version__ if wheel == "proa" else "not installed"


def machine() -> dict[str, str]:
    """Processor and system."""
    kind = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}"
    model = cpu_model()
    return {"machine": f"{kind}, {model}" if model else kind}


def engine() -> dict[str, str]:
    """What the compiled library was built for, and what it chose for this CPU."""
    built: dict[str, Any] = _core.build_info()
    facts = {
        "isa": str(built["isa"]),
        "built for": " ".join(built["built_isas"]),
        "cpu": f"runs up to {built['cpu']}",
        "bfloat16": f"products by {built['bf16']}",
        "amx": f"{built['amx']}, for bfloat16 and int8",
        "caches": f"blocks for {built['caches']}",
        "engine": f"abi {built['abi']}, file format {built['format']}, "
        f"{built['ops']} ops, compiled by {built['compiler']}",
    }
    if forced := os.environ.get("PROA_ISA"):
        facts["PROA_ISA"] = forced
    return facts


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def features() -> dict[str, str]:
    """The devices, and the extras of which what they need is installed."""
    there = [name for name, module in EXTRAS.items() if _is_installed(module)]
    from proa.device import cuda

    gpus = cuda.device_count()
    return {
        "devices": " ".join(["cpu", *(f"gpu:{i}" for i in range(gpus))]),
        "gpu": f"{gpus} found" if gpus else "none that this build can use",
        "extras": " ".join(there) or "none",
    }
