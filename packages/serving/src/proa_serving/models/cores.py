"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = _CGROUP) -> int:
    """Cores by CPU affinity and by the container's CPU limit; at least 1.

    A limit of part of a core counts as a core. Version 2 of cgroups keeps it in
    ``cpu.max``, version 1 in ``cpu/cpu.cfs_quota_us`` and ``cpu/cpu.cfs_period_us``.

    Args:
        cgroup: Where the limits of this process's control group are mounted.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _limit(cgroup) or cores))


def _limit(cgroup: Path) -> int | None:
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return None  # "max", or -1: no limit
    return math.ceil(int(quota) / int(period))


def share_cores(instances: int, threads: int, cores: int) -> tuple[int, int]:
    """Instances and threads of each, where 0 means as many as the cores allow.

    Both 0 is an instance for each core: for small models, runs side by side are
    faster than one run on all cores.
    """
    if instances and threads:
        return instances, threads
    if instances:
        return instances, max(1, cores // instances)
    threads = threads or 1
    return max(1, cores // threads), threads
