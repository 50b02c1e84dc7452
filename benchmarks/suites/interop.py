"""Static programs and ONNX models: steps, what a run adds to its plan, and imports.

A training step of LeNet, batch 64, Adam, by `static.Executor` and by `to_static`, and a
run of a program of one product and of its plan alone. Imports and conversions are run
in fresh processes: the text recognition of PP-OCRv4, where its wheel is installed, and
ResNet-50 with random weights, whose peak memory is reported as a multiple of the file.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case

import proa
from proa import nn, static
from proa.static.plan import Plan, Request
from proa.vision import models

BATCH = 64
#: Seconds, microseconds and multiples of the file that are not to be exceeded.
IMPORT, CONVERSION, MEMORY, OVERHEAD = 0.5, 1.0, 2.2, 15.0
RNG = np.random.default_rng(0)

# Imports what serves the conversion, converts, and prints seconds, and bytes beyond
# those of the process before it.
CONVERT = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import onnx, proa.onnx
from peak import resident
from proa.cli import main
before, start = resident("VmRSS"), time.perf_counter()
assert main(["convert", sys.argv[2], sys.argv[3]]) == 0
seconds = time.perf_counter() - start
print(json.dumps([seconds, resident("VmHWM") - before]))
"""
LOAD = """
import json, sys, time
import onnx, proa.onnx
start = time.perf_counter()
proa.onnx.load(sys.argv[2])
print(json.dumps([time.perf_counter() - start, 0]))
"""


def cases(torch: object | None) -> Iterator[Case]:
    """Every case; prints what it adds up to after the last one."""
    step = Case("lenet step, batch 64", {"proa": _executed(), "to_static": _recorded()},
                limit=1.05)  # fmt: skip
    yield step
    run, plan = _product()
    small = Case("executor, one product", {"proa": run, "plan": plan})
    yield small
    extra = 1e6 * (min(small.times["proa"]) - min(small.times["plan"]))
    verdict = "" if extra <= OVERHEAD else f", more than {OVERHEAD:g}"
    print(f"a run adds {extra:.1f} us to its plan{verdict}", flush=True)
    yield from _imports()


def _images() -> tuple[Any, Any]:
    images = RNG.standard_normal((BATCH, 1, 28, 28)).astype(np.float32)
    return images, RNG.integers(0, 10, (BATCH, 1))


def _executed() -> Callable[[], object]:
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    proa.enable_static()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 1, 28, 28], "float32")
        label = static.data("label", [None, 1], "int64")
        loss = nn.functional.cross_entropy(models.LeNet()(x), label)
        proa.optimizer.Adam(1e-3).minimize(loss)
    proa.disable_static()
    images, labels = _images()
    feed = {"x": images, "label": labels}
    executor = static.Executor()
    executor.run(startup, scope=scope)
    return lambda: executor.run(main, feed, [loss], scope=scope)


def _recorded() -> Callable[[], object]:
    net = models.LeNet()
    optimizer = proa.optimizer.Adam(1e-3, parameters=net.parameters())
    images, labels = _images()

    @proa.jit.to_static
    def step(x: Any, label: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    return lambda: step(proa.to_tensor(images), proa.to_tensor(labels)).numpy()


def _product() -> tuple[Callable[[], object], Callable[[], object]]:
    """A run of a program, and of its plan."""
    main, scope = static.Program(), static.Scope()
    proa.enable_static()
    with static.program_guard(main):
        y = static.data("x", [None, 8], "float32") * 2.0
    proa.disable_static()
    executor, array = static.Executor(), np.ones((4, 8), np.float32)
    fed = [proa.to_tensor(array)]
    plan = Plan(main, Request({"x": ("float32", (4, 8))}, [y.name], None))
    return (
        lambda: executor.run(main, {"x": array}, [y], scope=scope),
        lambda: plan.run(fed, scope),
    )


def _measured(program: str, *paths: Path) -> list[float]:
    command = [sys.executable, "-c", program, str(Path(__file__).parents[1])]
    done = subprocess.run(
        [*command, *map(str, paths)], capture_output=True, text=True, check=True
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _imports() -> Iterator[Case]:
    if importlib.util.find_spec("onnx") is None:
        print("without the package onnx no model is imported", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        spec = importlib.util.find_spec("rapidocr_onnxruntime")
        if spec is not None and spec.submodule_search_locations:
            root = Path(next(iter(spec.submodule_search_locations)))
            path = root / "models" / "ch_PP-OCRv4_rec_infer.onnx"
            yield _import("import PP-OCRv4 rec", LOAD, IMPORT, path)
        path, target = Path(folder, "resnet50.onnx"), Path(folder, "resnet50.proa")
        image = static.InputSpec([None, 3, 224, 224], "float32", "image")
        proa.onnx.export(models.resnet50(), str(path), [image], opset_version=13)
        yield _import("convert ResNet-50", CONVERT, CONVERSION, path, target)


def _import(name: str, program: str, goal: float, *paths: Path) -> Case:
    """A case that prints what it found."""
    found: list[list[float]] = []

    def measured() -> float:
        found.append(_measured(program, *paths))
        return found[-1][0]

    case = Case(name, {"proa": measured}, rounds=3, returns_seconds=True)
    measured()
    seconds, peak = (min(values) for values in zip(*found, strict=True))
    line = f"{name}: {seconds:.2f} s (goal {goal:g})"
    if peak:
        times = peak / paths[0].stat().st_size
        line += f", {times:.2f} times the file (goal {MEMORY:g})"
    print(line, flush=True)
    return case
