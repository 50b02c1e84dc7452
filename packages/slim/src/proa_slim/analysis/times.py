"""Files of times that ``proa-infer bench`` measured on one processor."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from proa.errors import InvalidArgumentError, PreconditionNotMetError, UnavailableError

_FORMAT = "proa-latency-1"


def bench(
    model: str | PathLike[str],
    batch: int = 1,
    threads: int = 1,
    runs: int = 50,
    shapes: Sequence[str] = (),
) -> float:
    """Milliseconds of a run of a model file on random input: the median that
    ``proa-infer bench`` measures in a process of its own.

    Args:
        model: The file.
        batch: The first size of inputs where it is symbolic.
        threads: Number of threads of a run.
        runs: Number of runs, of which the median counts.
        shapes: ``NAME=1,3,224,224`` for inputs with other symbolic sizes.

    Raises:
        UnavailableError: If proa-inference is not installed.
        PreconditionNotMetError: If the model cannot be run; it has the command's words.
    """
    command = [sys.executable, "-m", "proa_inference.cli", "bench", os.fspath(model)]
    command += ["--batch", str(batch), "--threads", str(threads), "--runs", str(runs)]
    for shape in shapes:
        command += ["--shape", shape]
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if "No module named" in done.stderr:
            raise UnavailableError(
                "[bench] expected proa-inference to be installed: pip install "
                "proa-inference"
            )
        raise PreconditionNotMetError(
            f"[bench] expected a model that runs, got: {done.stderr.strip()}"
        )
    return float(json.loads(done.stdout)["p50_ms"])


class TimesFile:
    """Milliseconds by name, in a file that is replaced in one step after each change.

    Args:
        where: The class that errors name.
        path: A JSON file; None keeps the times in memory.
        threads: Number of threads of a run.

    Raises:
        InvalidArgumentError: If the file has no times, or of another processor or
            number of threads.
    """

    def __init__(
        self, where: str, path: str | PathLike[str] | None, threads: int
    ) -> None:
        self.path = None if path is None else Path(path)
        self.threads, self.cpu = threads, _cpu()
        self.times: dict[str, float] = {}
        if self.path is not None and self.path.exists():
            self._read(where, self.path)

    def note(self, name: str, milliseconds: float) -> None:
        """Add a time."""
        self.times[name] = milliseconds
        self._write()

    def _read(self, where: str, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError
            times = {str(k): float(v) for k, v in content["milliseconds"].items()}
            result = (content["cpu"], content["threads"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidArgumentError(
                f"[{where}] expected a table of measured times, got {path}"
            ) from None
        if result != (self.cpu, self.threads):
            raise InvalidArgumentError(
                f"[{where}] expected times of {self.cpu!r} with {self.threads} "
                f"threads in {path}, got those of {result[0]!r} with {result[1]}"
            )
        self.times = times

    def _write(self) -> None:
        if self.path is None:
            return
        content = {
            "format": _FORMAT,
            "cpu": self.cpu,
            "threads": self.threads,
            "milliseconds": self.times,
        }
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(partial, self.path)


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
