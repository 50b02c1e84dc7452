"""Hold the wheels, lite's libraries, `import proa` and the server to their budgets.

    python tools/size.py [--lite-full LIBRARY] [--lite-lenet LIBRARY] [--skip-import]
                         [--serve] [--json PATH]

Run by a Python that has the core wheel, and for --serve that of serving. Prints a table
and exits with 1 if something is over its budget or could not be measured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = Path(__file__).with_name("budgets.toml")
ATTEMPTS = 7

# Prints the milliseconds and bytes that importing the second module adds to the first.
PROBE = """
import numpy, time
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
before, start = resident(), time.perf_counter()
import proa
print((time.perf_counter() - start) * 1e3, resident() - before)
"""


# A model that needs no engine: what is measured is the server.
MODEL = """
inputs = outputs = [("x", "FP32", (-1,))]


def run(inputs):
    return inputs
"""


class Measure(NamedTuple):
    """One figure and its budget, both in the unit."""

    what: str
    value: float | None
    budget: float
    unit: str

    @property
    def within_limit(self) -> bool:
        return self.value is not None and self.value <= self.budget


def read_budgets(text: str) -> dict[str, dict[str, float]]:
    """The budgets' tables of numbers (a TOML parser comes with Python 3.11 only)."""
    tables: dict[str, dict[str, float]] = {}
    current: dict[str, float] = {}
    for line in text.splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line.strip()):
            current = tables.setdefault(header[1], {})
        elif entry := re.fullmatch(r"(\w+) = ([\d_.]+)", line.strip()):
            current[entry[1]] = float(entry[2].replace("_", ""))
    return tables


def wheel_sizes(
    budgets: dict[str, float], folder: str = "dist", kind: str = "wheel"
) -> Iterator[Measure]:
    for package, budget in budgets.items():
        name = "proa" if package == "core" else f"proa_{package}"
        sizes = [w.stat().st_size for w in (ROOT / folder).glob(f"{name}-*.whl")]
        value = max(sizes) / 1e6 if sizes else None
        yield Measure(f"{kind} {name}", value, budget / 1e6, "MB")


def inference_libraries(budget: float) -> Iterator[Measure]:
    """What a program in C needs: the engine, and the functions over it."""
    found: dict[str, int] = {}
    for name in ("proa", "proa_inference"):
        for wheel in (ROOT / "dist").glob(f"{name}-*.whl"):
            with zipfile.ZipFile(wheel) as files:
                for entry in files.infolist():
                    if re.search(r"/lib/lib\w+\.so$", entry.filename):
                        size = max(entry.file_size, found.get(entry.filename, 0))
                        found[entry.filename] = size
    total = sum(found.values()) / 1e6 if len(found) == 2 else None
    yield Measure("inference libraries", total, budget / 1e6, "MB")


def median(values: list[float]) -> float | None:
    """None where nothing was measured."""
    return statistics.median(values) if values else None


def import_cost(budgets: dict[str, float]) -> Iterator[Measure]:
    """The medians of several fresh processes."""
    times, memory = [], []
    for _ in range(ATTEMPTS):
        run = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, cwd="/"
        )
        if run.returncode != 0:
            sys.stderr.write(run.stderr)
            break
        elapsed, added = run.stdout.split()
        times.append(float(elapsed))
        memory.append(float(added) / 1e6)
    yield Measure("import proa", median(times), budgets["milliseconds"], "ms")
    yield Measure("import proa", median(memory), budgets["resident"] / 1e6, "MB")


def server_cost(budgets: dict[str, float]) -> Iterator[Measure]:
    """Until ``proa-serve`` answers, and what it holds then; medians of several."""
    times, memory = [], []
    with tempfile.TemporaryDirectory() as folder:
        version = Path(folder, "m", "1")
        version.mkdir(parents=True)
        (version / "model.py").write_text(MODEL)
        command = [sys.executable, "-m", "proa_serving.cli", "--python-models"]
        command += ["--repository", folder, "--http", "0", "--grpc", "0"]
        for _ in range(ATTEMPTS):
            began = time.perf_counter()
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
            ) as server:
                if server.stdout is None or not server.stdout.readline():
                    break
                times.append((time.perf_counter() - began) * 1e3)
                status = Path(f"/proc/{server.pid}/status").read_text()
                found = re.search(r"VmRSS:\s+(\d+)", status)
                if found:
                    memory.append(int(found[1]) * 1024 / 1e6)
                server.terminate()
    yield Measure("proa-serve", median(times), budgets["milliseconds"], "ms")
    yield Measure("proa-serve", median(memory), budgets["resident"] / 1e6, "MB")


def stripped_size(what: str, library: Path, budget: float) -> Measure:
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(library, folder)
        subprocess.run(["strip", copy], check=True)
        return Measure(what, Path(copy).stat().st_size / 1e3, budget / 1e3, "KB")


def write_figures(path: Path, measures: list[Measure]) -> None:
    """What was measured and when, for tools/figures.py."""
    figures: dict[str, object] = {f"{m.what}, {m.unit}": m.value for m in measures}
    day = datetime.datetime.now(datetime.timezone.utc).date()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"date": day.isoformat(), **figures}, indent=2))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lite-full", type=Path, help="the library with all kernels")
    parser.add_argument("--lite-lenet", type=Path, help="the one for LeNet alone")
    parser.add_argument("--skip-import", action="store_true")
    parser.add_argument("--light", action="store_true", help="dist/scalar's wheels")
    parser.add_argument("--serve", action="store_true", help="start proa-serve too")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    budgets = read_budgets(BUDGETS.read_text())
    if options.light:
        measures = list(wheel_sizes(budgets["light"], "dist/scalar", "light wheel"))
    else:
        measures = list(wheel_sizes(budgets["wheels"]))
        measures += inference_libraries(budgets["inference"]["libraries"])
    if not options.skip_import:
        measures += import_cost(budgets["import"])
    if options.serve:
        measures += server_cost(budgets["serving"])
    for name, library in (("full", options.lite_full), ("lenet", options.lite_lenet)):
        if library:
            what = f"lite library, {name}"
            measures.append(stripped_size(what, library, budgets["lite"][name]))
    if options.json:
        write_figures(options.json, measures)
    for measure in measures:
        value = "absent" if measure.value is None else f"{measure.value:.2f}"
        verdict = "ok" if measure.within_limit else "OVER"
        limit = f"{measure.budget:g} {measure.unit}"
        print(f"{measure.what:24} {value:>9} of {limit:>9}  {verdict}")
    return 0 if all(measure.within_limit for measure in measures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
