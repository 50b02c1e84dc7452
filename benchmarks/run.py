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
from suites import eager, loader, train

import proa

SUITES = {"eager": eager, "loader": loader, "train": train}


def _torch(threads: int) -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch


def _row(case: harness.Case, verdict: bool) -> dict[str, object]:
    row: dict[str, object] = {"case": case.name, "limit": case.limit}
    for name, times in case.times.items():
        row[name] = harness.median(times) * 1e6
        row[f"{name}_spread"] = harness.spread(times)
    if "torch" in case.times:
        row["ratio"] = harness.ratio(case, "proa", "torch")
        noisy = max(harness.spread(t) for t in case.times.values()) > harness.NOISY
        if verdict and not noisy and case.limit is not None:
            row["kept"] = row["ratio"] <= case.limit
    return row


def _print(row: dict[str, object]) -> None:
    times = "  ".join(f"{n} {row[n]:10.2f} us" for n in ("proa", "torch") if n in row)
    ratio = f"  ratio {row['ratio']:.2f}" if "ratio" in row else ""
    verdict = {True: "  kept", False: "  NOT KEPT", None: "  no verdict"}[
        row.get("kept")
    ]
    print(
        f"{row['case']:16} {times}{ratio} (limit {row['limit']}){verdict}", flush=True
    )


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
    quiet = load < 0.6
    if not quiet:
        print(f"load {load:.2f}: the machine is busy, so no verdicts")
    proa.set_num_threads(options.threads)
    torch = _torch(options.threads)
    rows = []
    for name in options.suite:
        for case in SUITES[name].cases(torch):
            harness.measure(case)
            rows.append(_row(case, quiet))
            _print(rows[-1])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(
        json.dumps({"load": load, "rows": rows}, indent=2)
    )
    _plot(rows, options.out / "bench.png")
    return 1 if any(row.get("kept") is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
