"""Whole training steps of the workloads, in float32 and under autocast to bfloat16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import peak
import workloads
from harness import Case, Work

Facts = dict[str, object]


def cases(
    threads: int,
    names: Sequence[str],
    precisions: Sequence[str],
    contenders: Sequence[str],
    *,
    memory: bool,
) -> Iterator[tuple[Case, Facts]]:
    """One case for each workload and precision, identically defined for every
    contender; its facts go into the row.
    """
    for name in names:
        for precision in precisions:
            facts: Facts = {
                "kind": "training steps",
                "workload": name,
                "precision": precision,
            }
            work = workloads.BY_NAME[name]
            yield case(work, precision, threads, contenders, memory=memory), facts


def case(
    work: workloads.Workload,
    precision: str,
    threads: int,
    contenders: Sequence[str],
    *,
    memory: bool,
) -> Case:
    """A training step, by all contenders whose packages are there."""
    steps: dict[str, Work] = {}
    for contender in contenders:
        step = _usable(contender, work, precision, threads)
        if step is not None:
            steps[contender] = step

    def peak_of(contender: str) -> int | None:
        return peak.peak_of(work.name, contender, precision, threads)

    return Case(
        f"{work.name} {precision}",
        steps,
        # bfloat16 pays where the processor has instructions for it.
        limit=work.limit if precision == "fp32" else None,
        rounds=work.rounds,
        slice_seconds=0.2,
        memory=peak_of if memory else None,
    )


def _usable(
    contender: str, work: workloads.Workload, precision: str, threads: int
) -> Work | None:
    """The contender's step, which has run once; None, with a word, if it fails."""
    try:
        workloads.set_threads(contender, threads)
        step = workloads.step_of(contender, work, precision)
        if step is not None:
            step()
    except ImportError:
        return None
    except Exception as error:
        if contender.startswith("proa"):
            raise
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"{work.name} {precision}: without {contender}, {words[:100]}")
        return None
    return step
