"""What the system says of the CPU."""

from __future__ import annotations

from pathlib import Path


def cpu_model() -> str:
    """The CPU's name of itself; empty where the system does not tell it."""
    facts = Path("/proc/cpuinfo")
    for line in facts.read_text().splitlines() if facts.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""
