"""Saved models run by predictors, next to onnxruntime, OpenVINO and ncnn.

Rows are latencies of a batch; with ``--load``, each of batch 1 has the time to load in
a fresh process, and the memory that it takes. The last rows are a run of a graph of one
value, from Python and from C.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import infer_engines
import infer_models
import infer_process
import numpy as np
from harness import Case, Work

import proa
import proa_inference
from proa.static import InputSpec

Facts = dict[str, object]
PRECISIONS = ("fp32", "int8", "bf16")
#: Our time over the best peer's must not exceed this.
LIMITS = {"fp32": 1.0, "int8": 1.05, "bf16": 0.95}
FOLDER = Path("build/bench/infer-models")
SOURCE = Path(__file__).resolve().parent.parent / "infer_run.c"
LOADS = 3
EMPTY_RUNS = 1000


def cases(
    threads: int,
    names: Sequence[str],
    precisions: Sequence[str],
    batches: Sequence[int],
    *,
    load: bool,
) -> Iterator[tuple[Case, Facts]]:
    """One case for each model, precision and batch; its facts go into the row."""
    for precision in precisions:
        for name in names:
            for batch in batches:
                yield from _cases(name, precision, batch, threads, load=load)
    if threads == 1:
        yield from _empty_graph()


def _cases(
    name: str, precision: str, batch: int, threads: int, *, load: bool
) -> Iterator[tuple[Case, Facts]]:
    model = infer_models.BY_NAME[name]
    try:
        files = infer_models.files_of(model, precision, FOLDER)
    except (ImportError, proa.errors.Error) as error:
        print(f"without {name} {precision}: {_first_line(error)}")
        return
    arrays = model.inputs(np.random.default_rng(0), batch)
    works: dict[str, Work] = {}
    for engine in infer_engines.ENGINES:
        run = _usable(engine, model, files, arrays, precision, threads)
        if run is not None:
            works[engine] = run
    if "proa" not in works:
        return
    facts: Facts = {
        "kind": f"inference of batch {batch}",
        "workload": name,
        "precision": precision,
    }
    if precision == "fp32":
        facts["difference"] = _differences(works)
    if load and batch == 1:
        facts["fresh"] = _fresh(list(works), name, precision, threads)
    label = f"{name} {precision} b{batch}"
    yield Case(label, works, limit=LIMITS[precision], slice_seconds=0.1), facts


def _usable(
    engine: str,
    model: infer_models.Model,
    files: infer_models.Files,
    arrays: infer_models.Arrays,
    precision: str,
    threads: int,
) -> Work | None:
    """What runs the model, which has run once; None, with a word, if it fails."""
    names = [spec.name for spec in model.specs()]
    try:
        run = infer_engines.runner(engine, files, names, arrays, precision, threads)
        run()
    except (ImportError, infer_engines.Unsupported):
        return None
    except Exception as error:
        if engine == "proa":
            raise
        print(f"{model.name} {precision}: without {engine}, {_first_line(error)}")
        return None
    return run


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:150]


def _differences(works: dict[str, Work]) -> dict[str, float]:
    """How much a peer's first output differs from ours, over our largest value."""
    ours = np.asarray(_first(works["proa"]), np.float64)
    scale = float(np.abs(ours).max()) or 1.0
    found = {}
    for name, work in works.items():
        theirs = np.asarray(_first(work), np.float64)
        if name != "proa" and theirs.size == ours.size:
            gap = np.abs(theirs.reshape(ours.shape) - ours).max()
            found[name] = float(gap) / scale
    return found


def _first(work: Work) -> object:
    outputs = work()
    assert isinstance(outputs, list)
    return outputs[0]


def _fresh(
    engines: list[str], name: str, precision: str, threads: int
) -> dict[str, dict[str, float]]:
    """Medians of several fresh processes, which take turns."""
    engines = [*engines, "proa again"]
    infer_process.measured(engines[-1], name, precision, threads, FOLDER)  # saves
    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines}
    for _ in range(LOADS):
        for engine in engines:
            found = infer_process.measured(engine, name, precision, threads, FOLDER)
            if found is not None:
                runs[engine].append(found)
    medians = {
        engine: {
            fact: round(statistics.median(run[fact] for run in found), 1)
            for fact in infer_process.FACTS
        }
        for engine, found in runs.items()
        if found
    }
    for engine, facts in medians.items():
        values = ", ".join(f"{k} {v:.1f}" for k, v in facts.items())
        print(f"  {name} {precision}, fresh process, {engine}: {values}", flush=True)
    return medians


# -- what a run costs that computes nothing


def _empty_graph() -> Iterator[tuple[Case, Facts]]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "empty"
    specs = [InputSpec([1], "float32", "x")]
    proa.onnx.export(proa.nn.ReLU(), f"{path}.onnx", specs, opset_version=17)
    proa.jit.save(proa.nn.ReLU(), f"{path}.proa", specs)
    files = infer_models.Files(path.with_suffix(".proa"), path.with_suffix(".onnx"))
    arrays = [np.ones(1, np.float32)]
    works: dict[str, Work] = {}
    for engine in ("proa", "onnxruntime", "openvino"):
        try:
            works[engine] = infer_engines.runner(
                engine, files, ["x"], arrays, "fp32", 1
            )
        except ImportError:
            continue
    yield Case("one relu of one value, Python", works, limit=1.0), {}
    from_c = _run_in_c(f"{path}.proa")
    if from_c is not None:
        name = "one relu of one value, C"
        yield Case(name, {"proa": from_c}, rounds=9, returns_seconds=True), {}


def _run_in_c(path: str) -> Callable[[], float] | None:
    """Seconds of a run that a C program times; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    package = Path(proa_inference.__file__).parent
    lib = package / "lib"
    library = FOLDER / "infer_run.so"
    command = [compiler, "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
    command += [f"-I{package / 'include'}", f"-L{lib}", "-lproa_inference"]
    subprocess.run([*command, f"-Wl,-rpath,{lib}"], check=True)
    function = ctypes.CDLL(str(library.resolve())).infer_run
    function.restype = ctypes.c_double

    def run() -> float:
        seconds = float(function(path.encode(), EMPTY_RUNS))
        assert seconds > 0, "[infer] expected the model to run from C"
        return seconds

    return run
