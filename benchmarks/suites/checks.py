"""What it costs to have every result searched for NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterator

import workloads
from harness import Case, Work

import proa

#: Training keeps more than 80 % of its rate.
LIMIT = 1 / 0.8


def cases(torch: object | None) -> Iterator[Case]:
    """Eager steps of ResNet with the search on and off."""
    for name in ("resnet18_32_b64", "resnet50_224_b8"):
        work = workloads.BY_NAME[name]
        step = workloads.step_of("proa", work, "fp32")
        assert step is not None
        contenders = {"proa": _searched(step), "unsearched": step}
        yield Case(
            f"{name} searched", contenders, limit=LIMIT, rounds=work.rounds,
            slice_seconds=0.2,
        )  # fmt: skip


def _searched(step: Work) -> Work:
    def run() -> None:
        proa.set_flags({"FLAGS_check_nan_inf": True})
        try:
            step()
        finally:
            proa.set_flags({"FLAGS_check_nan_inf": False})

    return run
