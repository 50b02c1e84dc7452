"""Run the benchmarks and print medians and ratios; write them to JSON, a table and a
plot.

``nox -s bench -- [--suite eager train] [--threads 1 2] [--out DIR]``. Peers are
optional: what is not installed is left out. With a limit broken on a quiet machine the
exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parent))

import harness
import infer_models
import peak_rates
import report
import workloads
from suites import (
    checks,
    conv,
    eager,
    families,
    growth,
    infer,
    interop,
    kernel,
    loader,
    passes,
    serve,
    sharing,
    tasks,
    train,
)

import proa

SUITES = {
    "checks": checks,
    "conv": conv,
    "eager": eager,
    "families": families,
    "growth": growth,
    "infer": infer,
    "interop": interop,
    "kernel": kernel,
    "loader": loader,
    "passes": passes,
    "serve": serve,
    "sharing": sharing,
    "tasks": tasks,
    "train": train,
}


def _torch(threads: int) -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--suite", nargs="+", choices=sorted(SUITES), default=sorted(SUITES)
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument(
        "--precision", nargs="+", choices=infer.PRECISIONS,
        default=list(infer.PRECISIONS), help="of the suites train and infer",
    )  # fmt: skip
    _infer_options(parser)
    group = parser.add_argument_group("the suite train")
    group.add_argument(
        "--workloads", nargs="+", choices=sorted(workloads.BY_NAME), help="all"
    )
    group.add_argument(
        "--contenders", nargs="+", choices=workloads.CONTENDERS,
        default=list(workloads.CONTENDERS),
    )  # fmt: skip
    group.add_argument("--no-memory", action="store_true", help="no peaks of memory")
    return parser.parse_args()


def _infer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the suite infer")
    group.add_argument(
        "--models", nargs="+", choices=sorted(infer_models.BY_NAME), help="all"
    )
    group.add_argument(
        "--batch", type=int, nargs="+", default=list(infer_models.BATCHES)
    )
    group.add_argument(
        "--load", action="store_true", help="also loads in fresh processes"
    )


def _cases(
    name: str, torch: ModuleType | None, threads: int, options: argparse.Namespace
) -> Iterator[tuple[harness.Case, dict[str, object]]]:
    if name == "train":
        yield from train.cases(
            threads,
            options.workloads or list(workloads.BY_NAME),
            [p for p in options.precision if p != "int8"],
            options.contenders,
            memory=not options.no_memory,
        )
        return
    if name == "infer":
        yield from infer.cases(
            threads,
            options.models or list(infer_models.BY_NAME),
            options.precision,
            options.batch,
            load=options.load,
        )
        return
    if name == "serve":
        yield from serve.cases()
        return
    for case in SUITES[name].cases(torch):
        yield case, {}


def _run(threads: int, options: argparse.Namespace) -> None:
    """Measure with that many threads."""
    load = harness.other_load()
    if load > report.QUIET:
        print(f"{load:.2f} cores are busy with other work, so no verdicts")
    bounds = peak_rates.measure()
    for name, rate in bounds.items():
        print(f"peak of one thread, {name}: {rate * 1e-9:.1f} G/s")
    proa.set_num_threads(threads)
    torch = _torch(threads)
    rows = []
    for name in options.suite:
        for case, facts in _cases(name, torch, threads, options):
            harness.measure(case)
            rows.append({**report.row_of(case, threads, bounds), **facts})
            print(report.line_of(rows[-1]), flush=True)
            case.contenders.clear()  # networks of the next case need the memory
    report.compare_precisions(rows)
    report.write(rows, {"load": load, "peaks": bounds}, options.out)


def _run_each(options: argparse.Namespace) -> None:
    """One process for each number of threads: some peers fix it when they start."""
    rows, rest = [], {}
    for threads in options.threads:
        print(f"-- {threads} threads", flush=True)
        folder = options.out / f"threads-{threads}"
        chosen = ["--threads", str(threads), "--out", str(folder)]
        # Options given twice: the last one counts.
        command = [sys.executable, *sys.argv, *chosen]
        if subprocess.run(command).returncode > 1:
            continue
        rest = json.loads((folder / "bench.json").read_text())
        rows += rest.pop("rows")
    report.write(rows, rest, options.out)


def main() -> int:
    """Parse the command line and run the suites."""
    options = _options()
    if len(options.threads) == 1:
        _run(options.threads[0], options)
    else:
        _run_each(options)
    rows = json.loads((options.out / "bench.json").read_text())["rows"]
    print(report.summary(rows))
    return 1 if any(row.get("kept") is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
