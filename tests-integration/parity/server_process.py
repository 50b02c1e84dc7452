"""A server in a process of its own, for one model file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server(path: Path) -> Iterator[tuple[str, str]]:
    """Addresses, HTTP and gRPC, of a process that serves a file as ``net``."""
    command = [sys.executable, "-m", "proa_serving.cli", f"net={path}"]
    process = subprocess.Popen(
        [*command, "--http", "0", "--grpc", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        ready = process.stdout.readline()
        found = [ready.split(f"{name}=")[1].split()[0] for name in ("http", "grpc")]
        yield found[0], found[1]
    finally:
        process.terminate()
        assert process.wait(30) == 0
