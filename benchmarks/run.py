"""Run the benchmarks and print medians and ratios; write them to JSON and a plot.

``nox -s bench -- [--suite eager train] [--threads 1] [--out DIR]``. Peers are optional:
what is not installed is left out. With a limit broken on a quiet machine the exit code
is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parent))

import harness
import roof
from suites import conv, eager, kernel, loader, passes, train

import proa

SUITES = {
    "conv": conv,
    "eager": eager,
    "kernel": kernel,
    "loader": loader,
    "passes": passes,
    "train": train,
}


def _torch(threads: int) -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch


def _row(
    case: harness.Case, verdict: bool, roofs: dict[str, float]
) -> dict[str, object]:
    row: dict[str, object] = {"case": case.name, "limit": case.limit}
    for name, times in case.times.items():
        row[name] = harness.median(times) * 1e6
        row[f"{name}_spread"] = harness.spread(times)
    row["contenders"] = list(case.times)
    if case.amount > 0:
        row["rate"] = case.amount / harness.median(case.times["proa"])
        if case.roof in roofs:
            row["of_roof"] = float(str(row["rate"])) / roofs[case.roof]
    if "torch" in case.times:
        row["ratio"] = harness.ratio(case, "proa", "torch")
        noisy = max(harness.spread(t) for t in case.times.values()) > harness.NOISY
        if verdict and not noisy and case.limit is not None:
            row["kept"] = row["ratio"] <= case.limit
    return row


def _print(row: dict[str, object]) -> None:
    names = row["contenders"]
    assert isinstance(names, list)
    times = "  ".join(f"{name} {row[name]:10.2f} us" for name in names)
    ratio = f"  ratio {row['ratio']:.2f}" if "ratio" in row else ""
    rate = f"  {float(str(row['rate'])) * 1e-9:.1f} G/s" if "rate" in row else ""
    share = f" = {row['of_roof']:.0%} of the roof" if "of_roof" in row else ""
    verdict = ""
    if row["limit"] is not None:
        words = {True: "kept", False: "NOT KEPT", None: "no verdict"}
        verdict = f" (limit {row['limit']})  {words[row.get('kept')]}"  # type: ignore[index]
    print(f"{row['case']:28} {times}{ratio}{rate}{share}{verdict}", flush=True)


def _plot(rows: list[dict[str, object]], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows if "ratio" in row]
    figure, axes = pyplot.subplots(figsize=(7, 0.5 * len(rows) + 1))
    axes.barh([str(r["case"]) for r in rows], [float(str(r["ratio"])) for r in rows])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("time / PyTorch's (less is better)")
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> int:
    """Parse the command line and run the suites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--suite", nargs="+", choices=sorted(SUITES), default=sorted(SUITES)
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    load = harness.other_load()
    quiet = load < 0.3
    if not quiet:
        print(f"{load:.2f} cores are busy with other work, so no verdicts")
    roofs = roof.measure()
    for name, rate in roofs.items():
        print(f"roof of one thread, {name}: {rate * 1e-9:.1f} G/s")
    proa.set_num_threads(options.threads)
    torch = _torch(options.threads)
    rows = []
    for name in options.suite:
        for case in SUITES[name].cases(torch):
            harness.measure(case)
            rows.append(_row(case, quiet, roofs))
            _print(rows[-1])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(
        json.dumps({"load": load, "roofs": roofs, "rows": rows}, indent=2)
    )
    _plot(rows, options.out / "bench.png")
    return 1 if any(row.get("kept") is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
