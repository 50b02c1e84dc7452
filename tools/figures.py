"""Put measured figures into the documents: one file, and blocks written from it.

    nox -s quickstart size figures      # measure on an idle machine, then refresh
    nox -s "test-full(slim)" figures    # tables of slim
    nox -s figures                      # after nox -s examples -- compression_zoo
    python tools/figures.py [--check]

docs/figures/measured.json holds every measured figure that a README quotes, with the
command, the CPU and the day. This reads what `nox -s quickstart`, `nox -s size`,
`nox -s bench -- --suite train --threads 1` and the full tests of slim wrote (whatever
of it exists), brings that file up to date, copies the quickstart's picture, and
rewrites the blocks between `<!-- figures: NAME -->` and `<!-- end of figures -->` in
the documents. With --check it writes nothing and exits with 1 if a block is not what
the figures say.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "figures" / "measured.json"
PICTURE = MEASURED.with_name("runtimes.svg")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.S)
#: Tables that full tests of slim write.
SLIM_TABLES = (
    *("calibration", "corrections", "weights", "training"),
    *("distillation", "pruning", "sensitivity"),
)
Figures = dict[str, Any]


# --- from what sessions wrote


def collect(root: Path, measured: Figures) -> list[str]:
    """Update `measured` by the results that are there; returns what was found."""
    sources: dict[str, tuple[Path, Callable[[Figures, Figures], None]]] = {
        "quickstart": (root / "quickstart" / "report.json", _quickstart),
        "sizes": (root / "build" / "size.json", _sizes),
        "training": (root / "build" / "bench" / "bench.json", _training),
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


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
    return found[1] if found else "unknown"


# --- blocks


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _mean(rows: list[Figures]) -> float:
    return math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))


def _row_of(measured: Figures, runtime: str, precision: str) -> Figures:
    rows: list[Figures] = measured["quickstart"]["runtimes"]
    return next(
        r for r in rows if (r["runtime"], r["precision"]) == (runtime, precision)
    )


def _where(part: Figures) -> str:
    return f"{part['cpu']}, {part['date']}, `{part['command']}`"


def packages(measured: Figures) -> str:
    """The five packages with the sizes of their wheels."""
    sizes = measured["sizes"]
    rows = (
        ("proa", "tensors, autograd, layers, training, graphs, model files", "NumPy"),
        ("proa_slim", "quantization, pruning, distillation, search", "proa"),
        ("proa_inference", "predictor for servers; C, C++, Go, Java and R", "proa"),
        ("proa_lite", "runtime for small devices: a C library", "NumPy"),
        ("proa_serving", "HTTP and gRPC, Open Inference Protocol",
         "grpcio, protobuf, httptools, prometheus_client"),
    )  # fmt: skip
    lines = ["| package | what it is | wheel | needs |", "|---|---|---|---|"]
    for name, about, needs in rows:
        size = sizes[f"wheel {name}, MB"]
        weight = f"{size:.1f} MB" if size >= 1 else f"{size * 1000:.0f} KB"
        lines.append(f"| `{name}` | {about} | {weight} | {needs} |")
    lines += [
        "",
        f"`import proa` takes {sizes['import proa, ms']:.0f} ms and "
        f"{sizes['import proa, MB']:.0f} MB beyond NumPy; lite's library is "
        f"{sizes['lite library, full, KB']:.0f} KB, or "
        f"{sizes['lite library, lenet, KB']:.0f} KB with the operators of LeNet alone "
        f"({sizes['date']}, `{sizes['command']}`).",
    ]
    return "\n".join(lines)


def wheel(name: str) -> Callable[[Figures], str]:
    """A sentence about the size of one wheel."""

    def text(measured: Figures) -> str:
        sizes = measured["sizes"]
        size = sizes[f"wheel {name}, MB"]
        weight = f"{size:.1f} MB" if size >= 1 else f"{size * 1000:.0f} KB"
        return f"The wheel is {weight} ({sizes['date']}, `{sizes['command']}`)."

    return text


def training(measured: Figures) -> str:
    """Whole training steps compared with the best peer."""
    part = measured["training"]
    lines = [
        "| one training step, float32 | ours, ms | over the best peer | best peer |",
        "|---|---|---|---|",
    ]
    for row in part["rows"]:
        lines.append(
            f"| {row['network']} | {_rounded(row['ms'])} | {row['ratio']:.2f} | "
            f"{row['peer']} |"
        )
    lines += [
        "",
        f"The geometric mean is {_mean(part['rows']):.2f} (below 1 is faster; "
        f"{part['threads']} thread, peers {part['peers']}; {_where(part)}).",
    ]
    return "\n".join(lines)


def training_with_compiled(measured: Figures) -> str:
    """The same with the step under `jit.to_static`, for docs/speed.md."""
    lines = [
        "| network | time, ms | compiled, ms | over the best peer | best peer |",
        "|---|---|---|---|---|",
    ]
    for row in measured["training"]["rows"]:
        compiled = row["compiled_ms"]
        lines.append(
            f"| {row['network']} | {_rounded(row['ms'])} | "
            f"{_rounded(compiled) if compiled else ''} | {row['ratio']:.2f} | "
            f"{row['peer']} |"
        )
    return "\n".join(lines)


def quickstart(measured: Figures) -> str:
    """The sentence below the picture of the runtimes."""
    part = measured["quickstart"]
    fp32, int8 = (_row_of(measured, "inference", p) for p in ("fp32", "int8"))
    return (
        f"LeNet learned {part['data']} to {fp32['accuracy']:.1%}, in int8 "
        f"{int8['accuracy']:.1%}; the int8 file is "
        f"{fp32['file_bytes'] / int8['file_bytes']:.1f} times smaller. The run took "
        f"{part['seconds']} seconds ({_where(part)})."
    )


def slim(measured: Figures) -> str:
    """Accuracy of each way to int8."""
    part = measured["quickstart"]
    names = {
        "fp32": "float32",
        "ptq_abs_max": "`quant_post_static`, `abs_max`",
        "ptq_kl": "`quant_post_static`, `kl`",
        "qat": "`QAT`, one epoch",
    }
    lines = [f"| LeNet on {part['data']} | test accuracy |", "|---|---|"]
    lines += [f"| {n} | {part['accuracy'][k]:.4f} |" for k, n in names.items()]
    sizes = [_row_of(measured, "inference", p)["file_bytes"] for p in ("fp32", "int8")]
    lines += ["", f"The file shrinks from {sizes[0]:,} to {sizes[1]:,} bytes "
              f"({part['date']}, `{part['command']}`)."]  # fmt: skip
    return "\n".join(lines)


def slim_table(name: str) -> Callable[[Figures], str]:
    """A table that a full test of slim wrote."""

    def text(measured: Figures) -> str:
        part = measured[f"slim-{name}"]
        lines = [part["header"], ["---"] * len(part["header"]), *part["rows"]]
        rows = [f"| {' | '.join(line)} |" for line in lines]
        return "\n".join([*rows, "", f"Three seeds; {_where(part)}."])

    return text


def int8_latency(measured: Figures) -> str:
    """Times of int8 files against float32."""
    part = measured["int8-latency"]
    lines = ["| network | float32, ms | int8, ms | times as fast |"]
    lines.append("|---|---|---|---|")
    for row in part["rows"]:
        before, after = row["ms"]
        lines.append(
            f"| {row['network']} | {before:.2f} | {after:.2f} | {before / after:.2f} |"
        )
    return "\n".join([*lines, "", f"Batch 1, one thread; {_where(part)}."])


def search(measured: Figures) -> str:
    """What searches of the table find, and what a supernet costs."""
    part, shot = measured["search"], measured["search"]["one_shot"]
    lines = [
        f"| {part['steps']} trials, {part['seeds']} seeds | in the best 5 % | better "
        "networks: median (greatest) | epochs saved: mean (least) |",
        "|---|---|---|---|",
    ]
    for row in part["rows"]:
        saved = f"{row['saved']:.0%} ({row['least_saved']:.0%})" if row["saved"] else ""
        lines.append(
            f"| {row['name']} | {row['top5']} of {part['seeds']} | "
            f"{row['median_better']:.1%} ({row['worst_better']:.1%}) | {saved} |"
        )
    seconds = shot["seconds_train"] + shot["seconds_search"]
    alone = shot["steps"] * shot["seconds_each"]
    lines += [
        "",
        f"A supernet of this space, {shot['epochs']} epochs and {shot['steps']} "
        f"evaluations, took {seconds:.0f} s of one thread;",
        f"training {shot['steps']} networks takes {alone:.0f} s, "
        f"{shot['ratio']:.0f} times as long. Of all networks {shot['better']:.1%} are "
        "better than the",
        f"one it found ({_where(part)}).",
    ]
    return "\n".join(lines)


def zoo(measured: Figures) -> str:
    """A row for each recipe of the zoo: its network before and after."""
    lines = [
        "| recipe | how | before | after | multiply-adds, M | parameters, thousand | "
        "file, KB | one image, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for recipe, row in measured["zoo"]["rows"].items():
        before, after = row["value"]
        shown = [
            " → ".join(f"{number / unit:.{digits}f}" for number in row[key])
            for key, unit, digits in (
                ("flops", 1e6, 1), ("parameters", 1e3, 0), ("bytes", 1e3, 0),
                ("ms", 1, 2),
            )
        ]  # fmt: skip
        lines.append(
            f"| `{recipe}` | {row['method']} | {row['metric']} {before:.1f} | "
            f"{after:.1f} | {' | '.join(shown)} |"
        )
    where = _where(measured["zoo"])
    return "\n".join(
        [*lines, "", f"Times are of one thread of `proa_inference`; {where}."]
    )


def latency(runtime: str) -> Callable[[Figures], str]:
    """The rows of one runtime in the quickstart."""

    def text(measured: Figures) -> str:
        part = measured["quickstart"]
        lines = [
            "| LeNet | one image, median | images a second, batches of 100 |",
            "|---|---|---|",
        ]
        for row in part["runtimes"]:
            if row["runtime"] == runtime:
                lines.append(
                    f"| {row['precision']} | {row['p50_ms']:.3f} ms | "
                    f"{row['images_per_s']:,.0f} |"
                )
        lines += ["", f"{part['threads']} thread; {_where(part)}."]
        return "\n".join(lines)

    return text


def lite_sizes(measured: Figures) -> str:
    """Lite's libraries on each processor."""
    sizes, boards = measured["sizes"], measured["boards"]
    full, lenet = (sizes[f"lite library, {n}, KB"] for n in ("full", "lenet"))
    return "\n".join([
        "| | full library | LeNet: float32, fused and int8 in one |",
        "|---|---|---|",
        f"| x86-64 ({sizes['date']}) | {full:.1f} KB | {lenet:.1f} KB |",
        f"| aarch64 ({boards['date']}) | {boards['aarch64_full_kb']:.1f} KB | below "
        f"{boards['aarch64_lenet_below_kb']:.1f} KB |",
    ])  # fmt: skip


RENDERERS: dict[str, Callable[[Figures], str]] = {
    "packages": packages,
    "training": training,
    "training-compiled": training_with_compiled,
    "quickstart": quickstart,
    "search": search,
    "slim": slim,
    "zoo": zoo,
    "int8-latency": int8_latency,
    **{f"slim-{name}": slim_table(name) for name in SLIM_TABLES},
    "latency-inference": latency("inference"),
    "latency-lite": latency("lite"),
    "lite-sizes": lite_sizes,
    **{f"wheel-{name}": wheel(name) for name in
       ("proa", "proa_slim", "proa_inference", "proa_lite", "proa_serving")},
}  # fmt: skip


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
