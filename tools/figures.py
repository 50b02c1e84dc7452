"""Put measured figures into the documents: one file, and blocks written from it.

    nox -s quickstart size figures      # measure on an idle machine, then refresh
    nox -s "test-full(slim)" figures    # tables of slim
    nox -s figures                      # after nox -s examples -- compression_zoo
    python tools/figures.py [--check]

docs/figures/measured.json holds every measured figure that a README quotes, with the
command, the CPU and the day. This reads what `nox -s quickstart`, `nox -s size`, `nox
-s bench -- --suite train infer --threads 1` and the full tests of slim wrote (whatever
of it exists), brings that file up to date, copies the quickstart's picture, and
rewrites the blocks between `<!-- figures: NAME -->` and `<!-- end of figures -->` in
the documents. With --check it writes nothing and exits with 1 if a block is not what
the figures say.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from figure_blocks import RENDERERS, Figures

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "figures" / "measured.json"
PICTURE = MEASURED.with_name("runtimes.svg")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.S)


# --- from what sessions wrote


def collect(root: Path, measured: Figures) -> list[str]:
    """Update `measured` by the results that are there; returns what was found."""
    sources: dict[str, tuple[Path, Callable[[Figures, Figures], None]]] = {
        "quickstart": (root / "quickstart" / "report.json", _quickstart),
        "sizes": (root / "build" / "size.json", _sizes),
        "training": (root / "build" / "bench" / "bench.json", _training),
        "inference": (root / "build" / "bench" / "bench.json", _inference),
        "search": (root / "build" / "search.json", _search),
        "zoo": (root / "build" / "compression_zoo" / "results.json", _zoo),
        "int8 latency": (root / "build" / "int8-latency.json", _int8_latency),
    }
    found = []
    for name, (path, update) in sources.items():
        if path.exists():
            update(measured, json.loads(path.read_text()))
            found.append(f"{name} from {path.relative_to(root)}")
    for path in sorted((root / "build" / "slim-tables").glob("*.json")):
        command = 'nox -s "test-full(slim)"'
        table = json.loads(path.read_text())
        measured[f"slim-{path.stem}"] = {"command": command, "cpu": _cpu(), **table}
        found.append(f"slim-{path.stem} from {path.relative_to(root)}")
    return found


def _quickstart(measured: Figures, report: Figures) -> None:
    names = ("runtime", "precision", "accuracy", "p50_ms", "images_per_s", "file_bytes")
    measured["quickstart"] = {
        "command": "nox -s quickstart",
        "cpu": report["machine"]["cpu"],
        "date": report["machine"]["date"],
        "threads": report["measured"]["threads"],
        "data": report["data"]["name"],
        "seconds": round(report["seconds"]["total_without_build"]),
        "accuracy": {
            "fp32": report["train"]["accuracy"][-1],
            **{
                key: report["compress"][key] for key in ("ptq_abs_max", "ptq_kl", "qat")
            },
        },
        "runtimes": [{key: row[key] for key in names} for row in report["runtimes"]],
    }


def _sizes(measured: Figures, sizes: Figures) -> None:
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise SystemExit(f"[figures] build/size.json has no {', '.join(missing)}")
    measured["sizes"] = {"command": "nox -s size", **sizes}


def _search(measured: Figures, found: Figures) -> None:
    measured["search"] = {"command": "nox -s search", **found}


def _int8_latency(measured: Figures, found: Figures) -> None:
    command = "nox -s bench -- int8_latency.py"
    measured["int8-latency"] = {"command": command, "cpu": _cpu(), **found}


def _zoo(measured: Figures, found: Figures) -> None:
    names = ("method", "metric", "value", "flops", "parameters", "bytes", "ms")
    known = measured.get("zoo", {}).get("rows", {})  # recipes that did not run again
    measured["zoo"] = {
        "command": "nox -s examples -- compression_zoo",
        "cpu": _cpu(),
        "date": found["date"],
        "rows": known
        | {
            recipe: {key: row[key] for key in names}
            for recipe, row in found["rows"].items()
        },
    }


def _training(measured: Figures, bench: Figures) -> None:
    titles = {row["workload"]: row["network"] for row in measured["training"]["rows"]}
    rows = []
    for row in bench["rows"]:
        chosen = row.get("workload") in titles and row["precision"] == "fp32"
        if chosen and row["threads"] == 1 and "ratio" in row:
            compiled = row.get("proa_compiled")
            rows.append({
                "workload": row["workload"],
                "network": titles[row["workload"]],
                "ms": row["proa"] / 1000,
                "compiled_ms": compiled and compiled / 1000,
                "ratio": row["ratio"],
                "peer": row["best"],
            })  # fmt: skip
    if len(rows) < len(titles):  # a run of some workloads is no new table
        return
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    measured["training"] |= {"rows": rows, "cpu": _cpu(), "date": day}


def _inference(measured: Figures, bench: Figures) -> None:
    """One table for each precision whose rows include every network of the last one."""
    columns = ("workload", "batch", "threads", "ms", "ratio", "peer", "of_fp32", "kept")
    for precision in ("fp32", "int8", "bf16"):
        rows = []
        for row in bench["rows"]:
            kind = row.get("kind", "")
            chosen = kind.startswith("inference of batch") and row["threads"] == 1
            if chosen and row["precision"] == precision:
                batch = int(kind.rsplit(" ", 1)[1])
                found = {**row, "batch": batch, "ms": row["proa"] / 1000}
                found["peer"] = row.get("best")
                rows.append({key: found.get(key) for key in columns})
        name = f"inference-{precision}"
        before = {row["workload"] for row in measured.get(name, {}).get("rows", ())}
        if rows and before <= {row["workload"] for row in rows}:
            command = "nox -s bench -- --suite infer --threads 1"
            day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
            measured[name] = {"command": command, "cpu": _cpu(), "date": day,
                              "rows": rows}  # fmt: skip


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.M))
    if "model name" not in found:
        return "unknown"
    # Virtual machines often have the same name for several generations.
    return "{model name} (family {cpu family}, model {model})".format_map(found)


# --- into documents


def documents(root: Path) -> list[Path]:
    """The pages that may hold blocks."""
    return sorted([root / "README.md", *root.glob("packages/*/README.md"),
                   *root.glob("docs/*.md")])  # fmt: skip


def rendered(text: str, measured: Figures) -> str:
    """A page with its blocks written again."""

    def block(match: re.Match[str]) -> str:
        name = match[2]
        if name not in RENDERERS:
            raise SystemExit(f"[figures] expected one of {list(RENDERERS)}, got {name}")
        return f"{match[1]}{RENDERERS[name](measured)}\n{match[3]}"

    return BLOCK.sub(block, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    measured = json.loads(MEASURED.read_text())
    if not options.check:
        for line in collect(ROOT, measured):
            print(f"[figures] {line}")
        MEASURED.write_text(json.dumps(measured, indent=2, ensure_ascii=False) + "\n")
        drawn = ROOT / "quickstart" / "runtimes.svg"
        if drawn.exists():
            shutil.copyfile(drawn, PICTURE)
    stale = []
    for path in documents(ROOT):
        text = path.read_text(encoding="utf-8")
        fresh = rendered(text, measured)
        if fresh != text:
            stale.append(str(path.relative_to(ROOT)))
            if not options.check:
                path.write_text(fresh, encoding="utf-8")
    for name in stale:
        print(f"[figures] {name} {'is out of date' if options.check else 'rewritten'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
