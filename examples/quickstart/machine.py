"""What the figures were measured on: processor, instruction set, versions, date."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("proa", "proa-slim", "proa-inference", "proa-lite", "proa-serving")


def processor() -> str:
    """The name of the CPU, as the system reports it."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or platform.machine()


def facts() -> dict[str, object]:
    """The machine, the versions and the day (UTC)."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def in_words(seconds: float) -> str:
    """A duration as one says it: `2 minutes 41 seconds`."""
    if seconds < 10:
        return f"{seconds:.1f} seconds"
    minutes, rest = divmod(round(seconds), 60)
    parts = [
        f"{count} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((minutes, "minute"), (rest, "second"))
        if count
    ]
    return " ".join(parts)
