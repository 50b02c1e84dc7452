"""Runs recipes: trains what is compressed, compresses it, measures both files."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
import proa_inference
import proa_slim as slim

from .recipes import NETWORKS, RECIPES, Recipe
from .steps import Job, copied, float_file
from .tasks import TASKS, Size, Task, fit, outputs_of

Row = dict[str, Any]


def predictor(path: Path) -> Callable[[NDArray[np.float32]], Any]:
    """A model file, run by proa_inference with one thread."""
    config = proa_inference.Config(str(path))
    config.set_cpu_math_library_num_threads(1)
    result = proa_inference.create_predictor(config)
    return lambda x: result.run([x])


@dataclass
class Zoo:
    """Networks and results in a folder; what is there is not computed again.

    Args:
        folder: Where they are.
        size: How much is trained.
        log: Reports progress.
    """

    folder: Path
    size: Size = field(default_factory=Size)
    log: Callable[[str], None] = print

    # -- networks ----------------------------------------------------------------------
    def trained(self, name: str) -> proa.nn.Layer:
        """The network of a name, trained."""
        plan = NETWORKS[name]
        proa.seed(0)
        network = plan.build()
        path = self.folder / f"{name}.pdparams"
        if path.exists():
            network.set_state_dict(proa.load(str(path)))
        else:
            self.log(f"[{name}] training")
            fit(
                network,
                TASKS[plan.task],
                self.size,
                plan.epochs,
                plan.rate,
                log=self.log,
            )
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            proa.save(network.state_dict(), str(part))
            os.replace(part, path)
        network.eval()
        return network

    # -- recipes -----------------------------------------------------------------------
    def compressed(self, name: str) -> Job:
        """The job of a recipe after its steps."""
        recipe = RECIPES[name]
        plan = NETWORKS[recipe.network]
        network = copied(self.trained(recipe.network))
        job = Job(
            TASKS[plan.task], self.size, plan.build, self.trained, self.log, network
        )
        self.log(f"[{name}] {recipe.method}")
        for step in recipe.steps:
            step(job)
        return job

    def run(self, name: str) -> Row:
        """The row of a recipe, which is also added to the results."""
        begin = time.perf_counter()
        recipe = RECIPES[name]
        network = self.trained(recipe.network)
        job = self.compressed(name)
        paths = self.files(name)
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        paths[0].write_bytes(float_file(network, job.task))
        if job.quantized is None:
            paths[1].write_bytes(float_file(job.network, job.task))
        else:
            job.quantized.save(str(paths[1]))
        row: Row = {
            "recipe": name,
            "method": recipe.method,
            "metric": job.task.metric_name,
            "value": [self.metric(job.task, path) for path in paths],
            "flops": [slim.flops(n, job.shape) for n in (network, job.network)],
            "parameters": [
                sum(int(p.size) for p in n.parameters()) for n in (network, job.network)
            ],
            "bytes": [path.stat().st_size for path in paths],
            "ms": self.milliseconds(name, job.task.image),
            "notes": job.notes,
            "seconds": round(time.perf_counter() - begin, 1),
        }
        row["broken"] = broken(recipe, row)
        self.note(row)
        return row

    def files(self, name: str) -> tuple[Path, Path]:
        """The models before and after."""
        folder = self.folder / name
        return folder / "before.proa", folder / "after.proa"

    def metric(self, task: Task, path: Path) -> float:
        """The task's metric of a model file on the images for testing."""
        data = task.samples(self.size.test, "test")
        return task.metric(outputs_of(predictor(path), data), *data.targets)

    def milliseconds(self, name: str, image: int, runs: int = 50) -> list[float]:
        """One image by proa_inference, before and after: medians of runs in turns."""
        x = np.random.default_rng(0).uniform(-1, 1, (1, 3, image, image))
        models = [predictor(path) for path in self.files(name)]
        times: list[list[float]] = [[], []]
        for _ in range(runs):
            for model, found in zip(models, times, strict=True):
                begin = time.perf_counter()
                model(x.astype(np.float32))
                found.append(1e3 * (time.perf_counter() - begin))
        return [float(np.median(found)) for found in times]

    # -- results -----------------------------------------------------------------------
    @property
    def results(self) -> Row:
        """All rows, by recipe, with the processor and the day."""
        path = self.folder / "results.json"
        return json.loads(path.read_text()) if path.exists() else {"rows": {}}

    def note(self, row: Row) -> None:
        """Add a row to the results, or replace it."""
        results = self.results
        rows = results["rows"] | {row["recipe"]: row}
        results["rows"] = {name: rows[name] for name in RECIPES if name in rows}
        results["date"] = (
            datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        )
        part = self.folder / "results.json.part"
        part.write_text(json.dumps(results, indent=1))
        os.replace(part, self.folder / "results.json")

    def measure(self) -> None:
        """Measure the times of all recipes that are there again."""
        for name, row in self.results["rows"].items():
            image = TASKS[NETWORKS[RECIPES[name].network].task].image
            row["ms"] = self.milliseconds(name, image)
            self.note(row)


def broken(recipe: Recipe, row: Row) -> list[str]:
    """What a recipe promises and this row does not have."""
    found = []
    for key, limit in (("flops", recipe.flops), ("bytes", recipe.size)):
        before, after = row[key]
        if after > limit * before:
            found.append(
                f"expected {key} of at most {limit:.2f} of {before:,}, got {after:,}"
            )
    before, after = row["value"]
    if after < before - recipe.drop:
        found.append(
            f"expected {row['metric']} of at least {before - recipe.drop:.2f}, "
            f"got {after:.2f}"
        )
    return found


def summary(row: Row) -> str:
    """A row in a line."""
    value, flops, size, ms = (row[key] for key in ("value", "flops", "bytes", "ms"))
    return (
        f"{row['recipe']}: {row['metric']} {value[0]:.2f} -> {value[1]:.2f}, "
        f"multiply-adds {flops[0] / 1e6:.2f} -> {flops[1] / 1e6:.2f} M, "
        f"file {size[0] / 1e3:.0f} -> {size[1] / 1e3:.0f} KB, "
        f"{ms[0]:.2f} -> {ms[1]:.2f} ms, {row['seconds']:.0f} s"
    )
