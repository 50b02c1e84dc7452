"""The machine's own limits on one thread, measured by a small C program.

They need a C compiler; without one there are no limits and kernels are given in time
alone.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("peak_rates.c")
FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]


def measure() -> dict[str, float]:
    """Operations ("f32", "f64", "int8") and bytes ("memory", of which a third is
    written, and "read") per second; absent if unknown.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak_rates.so"
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(library)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return {}
        functions = ctypes.CDLL(str(library))
        bounds = {}
        for kind in ("f32", "int8", "memory", "read"):
            function = functions[f"peak_{kind}"]
            function.restype = ctypes.c_double
            rate = function()
            if rate > 0:
                bounds[kind] = rate
        bounds["f64"] = bounds["f32"] / 2  # a vector holds half as many
        return bounds
