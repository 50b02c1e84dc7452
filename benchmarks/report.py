"""What a run found, as lines, JSON, a table and a plot."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import harness

Row = dict[str, Any]
#: Above so many cores busy with other work there are no verdicts.
QUIET = 0.3


def row_of(case: harness.Case, threads: int, bounds: dict[str, float]) -> Row:
    """The figures of a measured case; times in microseconds, memory in MiB."""
    row: Row = {"case": case.name, "threads": threads, "limit": case.limit}
    row["load"] = case.load
    row["contenders"] = list(case.times)
    for name, times in case.times.items():
        row[name] = harness.median(times) * 1e6
        row[f"{name}_spread"] = harness.spread(times)
    if case.amount > 0:
        row["rate"] = case.amount / harness.median(case.times["proa"])
        if case.bound in bounds:
            row["of_peak"] = row["rate"] / bounds[case.bound]
    if case.memory is not None:
        peaks = {name: case.memory(name) for name in case.times}
        row["memory"] = {k: v / 2**20 for k, v in peaks.items() if v is not None}
    best = harness.best_peer(case)
    if best is not None:
        row["best"], row["ratio"] = best, harness.ratio(case, "proa", best)
        noisy = max(harness.spread(t) for t in case.times.values()) > harness.NOISY
        if case.load - case.own_load < QUIET and not noisy and case.limit is not None:
            row["kept"] = row["ratio"] <= case.limit
    if "proa_compiled" in case.times:
        row["compiled_ratio"] = harness.ratio(case, "proa_compiled", "proa")
    return row


def line_of(row: Row) -> str:
    """A row as one line of text."""
    parts = [f"{row['case']:32}"]
    parts += [f"{name} {row[name]:10.2f} us" for name in row["contenders"]]
    if "ratio" in row:
        parts.append(f"{row['ratio']:.2f} of {row['best']}")
    if "rate" in row:
        parts.append(f"{row['rate'] * 1e-9:.1f} G/s")
    if "of_peak" in row:
        parts.append(f"= {row['of_peak']:.0%} of peak")
    if row.get("memory"):
        peaks = (f"{name} {size:.0f}" for name, size in row["memory"].items())
        parts.append(f"MiB: {', '.join(peaks)}")
    if row["limit"] is not None:
        words = {True: "kept", False: "NOT KEPT", None: "no verdict"}
        parts.append(f"(limit {row['limit']:.3g}) {words[row.get('kept')]}")
    return "  ".join(parts)


def geomean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _label(row: Row) -> str:
    """What a row counts to, such as "training steps, fp32, 1 threads"."""
    return f"{row['kind']}, {row['precision']}, {row['threads']} threads"


def summary(rows: list[Row]) -> str:
    """Geometric means of the ratios of training steps, and of predictors."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if "precision" in row and "ratio" in row:
            ratios.setdefault(_label(row), []).append(row["ratio"])
    return "\n".join(
        f"{label}: {geomean(found):.2f} of the best peer (geometric mean of "
        f"{len(found)}), worst {max(found):.2f}"
        for label, found in sorted(ratios.items())
    )


def compare_precisions(rows: list[Row]) -> None:
    """Give rows of bf16 and int8 their time over that of our float32."""
    keys = ("kind", "workload", "threads")
    plain = {
        tuple(row[k] for k in keys): row["proa"]
        for row in rows
        if row.get("precision") == "fp32"
    }
    for row in rows:
        if row.get("precision", "fp32") != "fp32":
            base = plain.get(tuple(row[k] for k in keys))
            if base is not None:
                row["of_fp32"] = row["proa"] / base


def write(rows: list[Row], rest: dict[str, Any], folder: Path) -> None:
    """bench.json, bench.md and (with matplotlib) bench.png."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**rest, "rows": rows}, indent=2)
    (folder / "bench.json").write_text(text)
    (folder / "bench.md").write_text(_table(rows))
    _plot(rows, folder / "bench.png")


def _table(rows: list[Row]) -> str:
    names = list(dict.fromkeys(n for row in rows for n in row["contenders"]))
    head = ["case", "threads", *(f"{n} us" for n in names), "of the best peer", "load"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["case"], str(row["threads"])]
        cells += [f"{row[n]:.1f}" if n in row else "" for n in names]
        cells.append(f"{row['ratio']:.2f} {row['best']}" if "ratio" in row else "")
        lines.append("| " + " | ".join([*cells, f"{row['load']:.2f}"]) + " |")
    return "\n".join([*lines, "", summary(rows), ""])


def _plot(rows: list[Row], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows if "ratio" in row]
    figure, axes = pyplot.subplots(figsize=(7, 0.3 * len(rows) + 1))
    names = [f"{row['case']}, {row['threads']} thr" for row in rows]
    axes.barh(names, [row["ratio"] for row in rows])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("time / the best peer's (less is better)")
    figure.savefig(path, dpi=120, bbox_inches="tight")
