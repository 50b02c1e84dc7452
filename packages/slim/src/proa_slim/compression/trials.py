"""`compress`: try the steps of a recipe, measure each model, keep the best."""

from __future__ import annotations

import html
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError, UnavailableError
from proa.ir import file
from proa.ir.program import Program
from proa_slim.analysis import flops
from proa_slim.compression import steps
from proa_slim.compression.model import load, of_network, runner
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import (
    Samples,
    accuracy,
    classes,
    read_samples,
    samples_of,
)
from proa_slim.quant.model import QuantizedModel
from proa_slim.search.latency import bench
from proa_slim.web_page import document, table

#: Samples of a batch when a model is measured.
_BATCH = 256


@dataclass(frozen=True)
class Tried:
    """A model that was made and measured.

    Attributes:
        step: How it was made.
        metric: Percentage of the samples that were kept apart.
        drop: Below the model that was given, in points.
        file_bytes: Of its file.
        milliseconds: Of a run of one sample by `proa-infer bench`; None without it.
        multiply_adds: Of one sample.
    """

    step: str
    metric: float
    drop: float
    file_bytes: int
    milliseconds: float | None
    multiply_adds: int


@dataclass
class Compressed:
    """What `compress` made.

    Attributes:
        path: Of the model's file.
        chosen: Its measures.
        tried: Of all models, that which was given first.
        metric_name: ``accuracy``, or ``agreement`` with the model that was given.
        notes: What was left as it was, and why.
    """

    path: Path
    chosen: Tried
    tried: list[Tried] = field(default_factory=list)
    metric_name: str = "accuracy"
    notes: list[str] = field(default_factory=list)


class _Compression:
    """One run: the data, the measures, and what was tried."""

    def __init__(
        self, program: Program, samples: Samples, recipe: Recipe, progress: bool
    ) -> None:
        self.whole, self.recipe, self.progress = program, recipe, progress
        half = len(samples) // 2
        #: What is trained and calibrated on, and what is measured on.
        self.train, self.test = (
            samples.part(slice(half)),
            samples.part(slice(half, None)),
        )
        self.metric_name = "accuracy"
        if samples.labels is None:
            self.metric_name = "agreement"
            labels = classes(runner(program), self.test, _BATCH)
            self.test = Samples(self.test.inputs, labels)
        self.tried: list[Tried] = []
        self.notes: list[str] = []
        self.folder = tempfile.TemporaryDirectory(prefix="proa-compress-")

    def metric(self, model: Any) -> float:
        return accuracy(model, self.test, _BATCH)

    def measure(self, step: str, program: Program) -> Tried:
        path = os.path.join(self.folder.name, "trial.proa")
        file.write(program, path)
        base = self.tried[0].metric if self.tried else None
        metric = self.metric(runner(program))
        found = Tried(
            step,
            metric,
            0.0 if base is None else base - metric,
            os.path.getsize(path),
            self._milliseconds(path),
            flops(program),
        )
        self.tried.append(found)
        if self.progress:
            print(f"[compress] {_line(found)}", file=sys.stderr, flush=True)
        return found

    def _milliseconds(self, path: str) -> float | None:
        shapes = [
            f"{v.name}={','.join(str(n) for n in a[:1].shape)}"
            for v, a in zip(self.whole.main.inputs, self.test.inputs, strict=True)
        ]
        try:
            return bench(path, threads=self.recipe.threads, shapes=shapes)
        except UnavailableError:
            return None

    # -- the steps ---------------------------------------------------------------------
    def run(self) -> tuple[Program, Tried]:
        self.measure("as given", self.whole)
        program = self.whole
        if self.recipe.prune:
            program = self._prune()
        target = self.recipe.target
        if target == "float32":
            return program, self._require(self.tried[-1])
        if target != "int8":
            model = steps.weights_only(program, self.recipe)
            self._note_layers(model)
            return model.program, self._require(self.measure(target, model.program))
        return self._quantize(program)

    def _prune(self) -> Program:
        program, plan = steps.pruned(self.whole, self.recipe)
        self.notes += [
            f"not pruned: {name}: {why}" for name, why in plan.skipped.items()
        ]
        student = steps.imitated(
            program, self.whole, self.train, self.recipe, self.progress
        )
        share = f"{plan.pruned_flops:.0%} of multiply-adds pruned"
        self._require(
            self.measure(f"{share}, {self.recipe.epochs} epochs of imitation", student)
        )
        return student

    def _quantize(self, program: Program) -> tuple[Program, Tried]:
        best: tuple[float, Any, Tried, QuantizedModel] | None = None
        for setting, config in zip(
            self.recipe.quantize, self.recipe.configs(), strict=True
        ):
            model = steps.int8(program, self.train, config, self.recipe)
            text = ", ".join(f"{k}={v}" for k, v in setting.items()) or "plain"
            found = self.measure(f"int8, {text}", model.program)
            if best is None or found.drop < best[0]:
                best = found.drop, config, found, model
            if found.drop <= self.recipe.max_drop:
                break
        assert best is not None
        drop, config, found, model = best
        if drop > self.recipe.max_drop and self.recipe.mixed:
            wanted = self.tried[0].metric - self.recipe.max_drop
            goal = (self.metric, wanted, self.folder.name)
            model = steps.mixed(
                program, self.train, config, self.recipe, goal, self.progress
            )
            found = self.measure("int8, some layers in float32", model.program)
        self._note_layers(model)
        return model.program, self._require(found)

    def _note_layers(self, model: QuantizedModel) -> None:
        self.notes += [f"in float32: {k}: {v}" for k, v in model.unquantized.items()]

    def _require(self, found: Tried) -> Tried:
        if found.drop > self.recipe.max_drop:
            raise PreconditionNotMetError(
                f"[compress] expected a model that loses at most "
                f"{self.recipe.max_drop:g} points of {self.metric_name}, got "
                f"{found.drop:.3g} by {found.step}; a smaller prune, more epochs or a "
                "greater max_drop may do"
            )
        return found


def compress(
    model: str | PathLike[str] | proa.nn.Layer,
    data: str | PathLike[str] | Sequence[Any],
    recipe: Recipe | Mapping[str, Any] | None = None,
    output: str | PathLike[str] = "compressed",
    labels: Any = None,
    input_spec: Sequence[Any] | None = None,
    progress: bool = True,
) -> Compressed:
    """Make a model smaller and faster within what its metric may lose.

    The first half of the data is calibrated and trained on, the second half measures.
    Every model that is tried is measured as it would run: the metric, the size of its
    file, and its time by ``proa-infer bench``.

    Args:
        model: A file (``.proa``, ``.onnx``, ``.pdmodel`` or a folder of Paddle), or a
            network with `input_spec`.
        data: An ``.npz`` file with an array for each input, by name, and perhaps
            ``label``; or the arrays. Without labels the metric is how often the model
            agrees with the one that was given.
        recipe: Or its fields; `Recipe()` if not given.
        output: Folder of ``model.proa``, ``report.html`` and ``report.json``.
        labels: Of arrays: one integer for each sample.
        input_spec: Of a network, as for `proa.jit.save`.
        progress: Whether each model writes a line to standard error.

    Raises:
        NotFoundError: If a file is missing, or the data lack an input.
        InvalidArgumentError: If the data or the recipe are no such.
        PreconditionNotMetError: If the target cannot be met; it names the step, or the
            layer in the way.
    """
    if recipe is None:
        recipe = Recipe()
    elif not isinstance(recipe, Recipe):
        recipe = Recipe.of(recipe)
    if isinstance(model, proa.nn.Layer):
        if input_spec is None:
            raise InvalidArgumentError(
                "[compress] expected input_spec with a network, got None"
            )
        program = of_network(model, input_spec)
    else:
        program = load(model)
    if isinstance(data, (str, PathLike)):
        samples = read_samples(data, program)
    else:
        samples = samples_of(data, labels)
    work = _Compression(program, samples, recipe, progress)
    folder = Path(fspath(output))
    folder.mkdir(parents=True, exist_ok=True)
    with work.folder:
        try:
            made, chosen = work.run()
        except PreconditionNotMetError:
            _write_report(folder, work, None)
            raise
    file.write(made, folder / "model.proa")
    _write_report(folder, work, chosen)
    return Compressed(
        folder / "model.proa", chosen, work.tried, work.metric_name, work.notes
    )


def _line(tried: Tried) -> str:
    time = "" if tried.milliseconds is None else f", {tried.milliseconds:.3f} ms"
    return (
        f"{tried.step}: {tried.metric:.2f} % ({-tried.drop:+.2f}), "
        f"{tried.file_bytes:,} bytes{time}"
    )


def _write_report(folder: Path, work: _Compression, chosen: Tried | None) -> None:
    content = {
        "metric": work.metric_name,
        "chosen": None if chosen is None else work.tried.index(chosen),
        "tried": [asdict(tried) for tried in work.tried],
        "notes": work.notes,
        "recipe": work.recipe.as_dict(),
    }
    text = json.dumps(content, indent=1)
    (folder / "report.json").write_text(text, encoding="utf-8")
    rows = [
        [
            html.escape(tried.step),
            f"{tried.metric:.2f}",
            f"{tried.drop:.2f}",
            f"{tried.file_bytes:,}",
            "–" if tried.milliseconds is None else f"{tried.milliseconds:.3f}",
            f"{tried.multiply_adds:,}",
        ]
        for tried in work.tried
    ]
    heads = (
        "model", f"{work.metric_name}, %", "drop, points", "bytes", "ms",
        "multiply-adds",
    )  # fmt: skip
    best = None if chosen is None else work.tried.index(chosen)
    met = "The model that was kept is bold." if chosen else "No model met the target."
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in work.notes)
    body = (
        f"<p>{met} {len(work.train)} samples to train and calibrate, {len(work.test)} "
        f"others to measure; times of one sample with {work.recipe.threads} thread(s)."
        f"</p>{table(heads, rows, best)}<ul>{notes}</ul>"
    )
    page = document("Compression", body)
    (folder / "report.html").write_text(page, encoding="utf-8")
