"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_VERSION1 = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def available_cores(cgroup: Path = _CGROUP, membership: Path = _MEMBERSHIP) -> int:
    """Cores by CPU affinity and by the CPU limits of control groups; at least 1.

    The limits are those of the process's group and of the groups around it, as the
    engine's pool of threads takes them. A limit of part of a core counts as a core.
    Version 2 of cgroups keeps it in ``cpu.max``, version 1 in ``cpu.cfs_quota_us`` and
    ``cpu.cfs_period_us``.

    Args:
        cgroup: Where control groups are mounted.
        membership: Says in which groups this process is.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    unified, own = _groups(_text(membership))
    limits = [_limit(_text(g / "cpu.max")) for g in _around(cgroup, unified)]
    for name in _VERSION1:
        for g in _around(cgroup / name, own):
            quota, period = (
                _text(g / "cpu.cfs_quota_us"),
                _text(g / "cpu.cfs_period_us"),
            )
            limits.append(_limit(f"{quota} {period}"))
    return max(1, min([cores, *(n for n in limits if n is not None)]))


def _groups(membership: str) -> tuple[str, str]:
    """The process's group of version 2 and that of version 1 which limits CPUs, of
    lines ``<number>:<controllers>:<group>``; the mount's own if there is none.
    """
    unified = own = ""
    for line in membership.splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            unified = group
        if "cpu" in controllers.split(","):
            own = group
    return unified, own


def _around(mount: Path, group: str) -> list[Path]:
    """The folders of a group and of those around it. In a container the group may be
    one of the host, which is not mounted there; the mount is then the container's own.
    """
    inside = mount / group.strip("/")
    return [inside, *(p for p in inside.parents if p.is_relative_to(mount))]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _limit(text: str) -> int | None:
    """CPUs of ``<quota> <period>``, rounded up; None for "max" and for -1: no limit."""
    quota, _, period = text.partition(" ")
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None
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
