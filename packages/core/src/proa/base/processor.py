"""What the system says of the CPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def cpu_model() -> str:
    """The CPU's name of itself; empty where the system does not tell it."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        with facts.open() as lines:  # a paragraph for each CPU: the first is enough
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    return ""
