"""The memory that the native transport receives bodies into."""

import subprocess
import sys

import pytest

pytest.importorskip("proa_serving._native")

# Blocks of 22 MiB in all, of sizes that are not used again.
SIZES = """
import resource, time
from proa_serving._native import Memory

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() >> 20

def fill(size):
    memory = Memory(size, 0)
    memoryview(memory)[:] = bytes([1]) * size
    return memory

fill(1 << 16)
found = [resident()]
held = [fill(mib << 20) for mib in range(4, 8)]
del held
found.append(resident())
time.sleep(4.5)
fill(1 << 16)
found.append(resident())
print(*found)
"""


def test_blocks_of_sizes_that_no_request_has_are_freed():
    command = [sys.executable, "-c", SIZES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    before, cached, after = (int(mib) for mib in run.stdout.split())
    assert cached - before > 20
    assert after - before < 4
