"""Runs Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run_python(
    code: str, *arguments: object, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, with variables of the environment; its end may be a failure."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
