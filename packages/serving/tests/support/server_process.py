"""The command ``proa-serve`` as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import small_models

PROGRAM = Path(small_models.__file__)


class Process:
    """Runs the command with ``arguments`` until it is ready, or has ended.

    Args:
        arguments: Arguments of the command.
        prefix: A command that starts the command.
        env: Its environment; that of the test where None.
    """

    def __init__(self, *arguments, prefix=(), env=None):
        self.held = subprocess.Popen(
            [*prefix, sys.executable, str(PROGRAM), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.line = self.held.stdout.readline()
        ports = dict(re.findall(r"(http|grpc)=(\S+)", self.line))
        self.http, self.grpc = ports.get("http"), ports.get("grpc")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.held.poll() is None:
            self.held.kill()
        self.held.communicate()

    def end(self):
        """Wait for its end; its exit code."""
        self.stderr = self.held.communicate(timeout=30)[1]
        return self.held.returncode

    def status(self, field):
        """A number of kibibytes in /proc/PID/status, such as VmRSS."""
        text = Path(f"/proc/{self.held.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)[1])

    def descriptors(self):
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.held.pid}/fd").iterdir()))
