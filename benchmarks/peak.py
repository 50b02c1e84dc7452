"""Peak memory of a process during a training step, and its memory before.

``python peak.py WORKLOAD CONTENDER PRECISION THREADS`` prints two numbers of bytes:
resident memory at its peak, and before the network was made.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def resident(field: str) -> int:
    """Bytes of a line of this process's status; unlike getrusage's, its peak does not
    begin with that of the process that started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"[peak] the system must tell {field}")


def main(name: str, contender: str, precision: str, threads: str) -> None:
    """Run three steps, so that what is made on first use is there."""
    import workloads

    try:
        workloads.set_threads(contender, int(threads))
    except ImportError:
        return
    at_rest = resident("VmRSS")
    step = workloads.step_of(contender, workloads.BY_NAME[name], precision)
    if step is None:
        return
    for _ in range(3):
        step()
    print(resident("VmHWM"), at_rest)


def peak_of(name: str, contender: str, precision: str, threads: int) -> int | None:
    """Bytes above the process before the step; None if it cannot be measured."""
    command = [sys.executable, __file__, name, contender, precision, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = done.stdout.split()[-2:]
    if done.returncode != 0 or len(found) < 2:
        return None
    return int(found[0]) - int(found[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
