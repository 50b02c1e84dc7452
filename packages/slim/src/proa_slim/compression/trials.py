"""`compress`: try the steps of a recipe, measure each model, keep the best."""

from __future__ import annotations

import html
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError, UnavailableError
from proa.ir import file
from proa.ir.program import Program
from proa_slim.analysis import flops
from proa_slim.analysis.times import bench
from proa_slim.compression import steps
from proa_slim.compression.goal import Goal, halves
from proa_slim.compression.model import runner
from proa_slim.compression.progress import Finished, Progress, TrialResult, fingerprint
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import (
    Samples,
    accuracy,
    classes,
    read_samples,
    samples_of,
)
from proa_slim.compression.training import Distiller
from proa_slim.config import QuantConfig
from proa_slim.loading import LoadedNetwork, load, of_network
from proa_slim.quant.input_check import warn_of_other_range
from proa_slim.quant.model import QuantizedModel
from proa_slim.web_page import document, table

#: Samples of a batch when a model is measured.
_BATCH = 256


@dataclass
class Compressed:
    """What `compress` made.

    Attributes:
        path: Path of the model's file.
        chosen: Its measures.
        tried: All models that were tried; the first is the one that was given.
        metric_name: ``accuracy``, or ``agreement`` with the model that was given.
        notes: What was left as it was, and why.
    """

    path: Path
    chosen: TrialResult
    tried: list[TrialResult] = field(default_factory=list)
    metric_name: str = "accuracy"
    notes: list[str] = field(default_factory=list)


class _Compression:
    """One run: the data, the measures, and what was tried."""

    def __init__(
        self,
        program: Program,
        samples: Samples,
        recipe: Recipe,
        checkpoints: Progress,
        progress: bool,
        goal: Goal,
    ) -> None:
        self.whole, self.recipe, self.progress = program, recipe, progress
        self.train, self.test = halves(samples, goal.samples)
        self.metric_name, self._metric = "accuracy", goal.metric
        if goal.metric is not None:
            self.metric_name = "metric"
        elif self.test.labels is None:
            self.metric_name = "agreement"
            labels = classes(runner(program), self.test, _BATCH)
            self.test = Samples(self.test.inputs, labels)
        self.tried: list[TrialResult] = []
        self.notes: list[str] = []
        self.checkpoints = checkpoints
        if goal.speedup is not None:
            limit = self._time_of_whole() / goal.speedup
            self.recipe = replace(recipe, max_milliseconds=limit)

    def metric(self, model: QuantizedModel) -> float:
        if self._metric is not None:
            return self._metric(model)
        return accuracy(model, self.test, _BATCH)

    def _time_of_whole(self) -> float:
        path = self.checkpoints.folder / "timed.proa"
        file.write(self.whole, path)
        time = self._milliseconds(path)
        if time is None:
            raise UnavailableError(
                "[compress] expected proa-inference to be installed for a speedup: pip "
                "install proa-inference"
            )
        return time

    def trial(
        self, step: str, make: Callable[[], tuple[Program, list[str]]]
    ) -> Finished:
        """Make a model and measure it, unless that was finished before."""
        found = self.checkpoints.find(step)
        if found is None:
            program, notes = make()
            found = Finished(program, self._measure(step, program), notes)
            self.checkpoints.add(found.tried, notes)
        self.tried.append(found.tried)
        if self.progress:
            print(f"[compress] {_line(found.tried)}", file=sys.stderr, flush=True)
        return found

    def _measure(self, step: str, program: Program) -> TrialResult:
        path = self.checkpoints.next_model()
        file.write(
            program, path, compressed=self.recipe.compressed and bool(self.tried)
        )
        base = self.tried[0].metric if self.tried else None
        metric = self.metric(runner(program))
        return TrialResult(
            step,
            metric,
            0.0 if base is None else base - metric,
            os.path.getsize(path),
            self._milliseconds(path),
            flops(program),
        )

    def _milliseconds(self, path: Path) -> float | None:
        shapes = [
            f"{v.name}={','.join(str(n) for n in a[:1].shape)}"
            for v, a in zip(self.whole.main.inputs, self.test.inputs, strict=True)
        ]
        try:
            return bench(path, threads=self.recipe.threads, shapes=shapes)
        except UnavailableError:
            if self.recipe.max_milliseconds is not None:
                raise
            return None

    # -- the steps ---------------------------------------------------------------------
    def run(self) -> Finished:
        self.trial("as given", lambda: (self.whole, []))
        program = self.whole
        share = self.recipe.prune
        if self.recipe.max_milliseconds is not None:
            share = self._share_in_time(self.recipe.max_milliseconds)
        if share:
            pruned = self._prune(share)
            program = pruned.program
            if self.recipe.target == "float32":
                return self._require(pruned)
        target = self.recipe.target
        if target == "int8":
            return self._require(self._quantize(program))
        if target == "float32":
            raise PreconditionNotMetError(
                "[compress] expected a slower model for target float32 and no prune, "
                f"got one of {self.tried[0].milliseconds:.3g} ms"
            )
        return self._require(
            self.trial(target, lambda: _parts(steps.weights_only(program, self.recipe)))
        )

    def _share_in_time(self, limit: float) -> float:
        """The least share of multiply-adds, from ``recipe.prune`` in steps of a tenth,
        without which the model is fast enough; nothing is trained to find it.
        """
        name, first = "prune", self.recipe.prune
        known = self.checkpoints.share(name)
        if known is not None:
            return known
        shares = [first, *(n / 10 for n in range(1, 10) if n / 10 > first)]
        fastest = math.inf
        for share in shares:
            try:
                time = self._time_without(share)
            except PreconditionNotMetError:  # a layer is in the way
                break
            fastest = min(fastest, time)
            if self.progress:
                text = f"[compress] {share:.0%} of multiply-adds pruned: {time:.3f} ms"
                print(text, file=sys.stderr, flush=True)
            if time <= limit:
                self.checkpoints.note_share(name, share)
                return share
        raise PreconditionNotMetError(
            f"[compress] expected a model that runs in {limit:g} ms, got {fastest:.3g} "
            "ms by the fastest that pruning gives"
        )

    def _time_without(self, share: float) -> float:
        program = self.whole
        if share:
            program = steps.pruned(program, self.recipe, share)[0]
        if self.recipe.target == "int8":
            config = self.recipe.configs()[0]
            program = steps.int8(program, self.train, config, self.recipe).program
        path = self.checkpoints.folder / "timed.proa"
        file.write(program, path)
        time = self._milliseconds(path)
        assert time is not None  # or it was refused
        return time

    def _prune(self, share: float) -> Finished:
        def train_pruned() -> tuple[Program, list[str]]:
            program, plan = steps.pruned(self.whole, self.recipe, share)
            distiller = self._distiller()
            student = steps.distilled(
                program, distiller, self.train, self.recipe, self.checkpoints.folder
            )
            left = [f"not pruned: {name}: {why}" for name, why in plan.skipped.items()]
            return student, left

        text = f"{share:.0%} of multiply-adds pruned, {self.recipe.epochs} epochs"
        found = self.trial(f"{text} of distillation", train_pruned)
        self._require_drop(found.tried)
        self.notes += found.notes
        return found

    def _distiller(self) -> Distiller:
        return Distiller(self.whole, self.train, self.recipe, self.progress)

    def _quantize(self, program: Program) -> Finished:
        time = self.tried[-1].milliseconds
        found, config = self._small_enough_loss(program)
        small = found.tried.milliseconds
        if time is None or small is None or small <= time:
            return found
        return self._without_slow_layers(program, found, config)

    def _without_slow_layers(
        self, program: Program, found: Finished, config: QuantConfig
    ) -> Finished:
        """A model that leaves out of int8 what that makes slower, if it is better.

        It must also be smaller than the float32 model: int8 was requested.
        """
        rest = self.recipe.rest
        try:
            result = self.trial(
                f"int8, layers that this makes slower in {rest}",
                lambda: _parts(
                    steps.faster_int8(program, self.train, config, self.recipe)
                ),
            )
        except (PreconditionNotMetError, InvalidArgumentError) as error:
            self.notes.append(f"slower than float32: {error}")
            return found
        before, after = found.tried.milliseconds, result.tried.milliseconds
        assert before is not None and after is not None  # they were measured
        faster = after < before and result.tried.drop <= self.recipe.max_drop
        smaller = result.tried.file_bytes < self.tried[0].file_bytes
        return result if faster and smaller else found

    def _small_enough_loss(self, program: Program) -> tuple[Finished, QuantConfig]:
        """An int8 model, by its setting, that loses little enough if any does."""
        best: tuple[Finished, QuantConfig] | None = None
        for setting, config in zip(
            self.recipe.quantize, self.recipe.configs(), strict=True
        ):
            text = ", ".join(f"{k}={v}" for k, v in setting.items()) or "plain"
            found = self.trial(
                f"int8, {text}",
                lambda config=config: _parts(  # type: ignore[misc]
                    steps.int8(program, self.train, config, self.recipe)
                ),
            )
            if best is None or self._order(found) < self._order(best[0]):
                best = found, config
            if self._fits(found):
                return found, config
        assert best is not None
        chosen, config = best
        if self.recipe.qat_epochs:
            trained = self._train_rounded(program, config)
            if self._fits(trained):
                return trained, config
            chosen = min(chosen, trained, key=self._order)
        if self.recipe.mixed and chosen.tried.drop > self.recipe.max_drop:
            return self._mix(program, config), config
        return chosen, config

    def _train_rounded(self, program: Program, config: QuantConfig) -> Finished:
        return self.trial(
            f"int8, {self.recipe.qat_epochs} epochs of training with the rounding",
            lambda: _parts(
                steps.trained_int8(
                    program, self._distiller(), self.train, config, self.recipe,
                    self.checkpoints.folder,
                )
            ),
        )  # fmt: skip

    def _mix(self, program: Program, config: QuantConfig) -> Finished:
        wanted = self.tried[0].metric - self.recipe.max_drop
        goal = (self.metric, wanted, self.checkpoints.folder)
        return self.trial(
            f"int8, some layers in {self.recipe.rest}",
            lambda: _parts(
                steps.mixed(
                    program, self.train, config, self.recipe, goal, self.progress
                )
            ),
        )

    def _is_slow(self, found: Finished) -> bool:
        time, limit = found.tried.milliseconds, self.recipe.max_milliseconds
        return limit is not None and time is not None and time > limit

    def _fits(self, found: Finished) -> bool:
        return found.tried.drop <= self.recipe.max_drop and not self._is_slow(found)

    def _order(self, found: Finished) -> tuple[bool, float]:
        return self._is_slow(found), found.tried.drop

    def _require(self, found: Finished) -> Finished:
        self._require_drop(found.tried)
        if self._is_slow(found):
            raise PreconditionNotMetError(
                f"[compress] expected a model that runs in at most "
                f"{self.recipe.max_milliseconds:g} ms, got "
                f"{found.tried.milliseconds:.3g} by {found.tried.step}; a greater "
                "prune or max_milliseconds may do"
            )
        self.notes += [note for note in found.notes if note not in self.notes]
        return found

    def _require_drop(self, found: TrialResult) -> None:
        if found.drop > self.recipe.max_drop:
            raise PreconditionNotMetError(
                f"[compress] expected a model that loses at most "
                f"{self.recipe.max_drop:g} points of {self.metric_name}, got "
                f"{found.drop:.3g} by {found.step}; a smaller prune, more epochs or a "
                "greater max_drop may do"
            )


def _parts(model: QuantizedModel) -> tuple[Program, list[str]]:
    """A model's graph, and what stays in float32."""
    left = [f"in float32: {k}: {v}" for k, v in model.unquantized.items()]
    return model.program, left


def compress(
    model: str | PathLike[str] | proa.nn.Layer,
    data: str | PathLike[str] | Sequence[Any],
    recipe: Recipe | Mapping[str, Any] | None = None,
    output: str | PathLike[str] = "compressed",
    labels: Any = None,
    input_spec: Sequence[Any] | None = None,
    progress: bool = True,
    resume: bool = False,
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
        labels: For arrays: one integer for each sample.
        input_spec: For a network, as for `proa.jit.save`.
        progress: Whether each model writes a line to standard error.
        resume: Whether to go on after the last model or epoch that a run which was
            stopped has finished. It must be the same model, data and recipe.

    Raises:
        NotFoundError: If a file is missing, or the data lack an input.
        InvalidArgumentError: If the data or the recipe are no such.
        PreconditionNotMetError: If the target cannot be met; it names the step, or the
            layer in the way. Or if `resume` finds another model, data or recipe.
        UnavailableError: If a time is wanted, and proa-inference is not installed.
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
        program = load(model, "compress")
    if isinstance(data, (str, PathLike)):
        samples = read_samples(data, program)
    else:
        samples = samples_of(data, labels)
    folder = Path(fspath(output))
    checkpoints = Progress(folder, fingerprint(program, samples, recipe), resume)
    return compress_program(
        program, samples, recipe, checkpoints, folder, progress, Goal()
    )


def compress_program(
    program: Program,
    samples: Samples,
    recipe: Recipe,
    checkpoints: Progress,
    folder: Path,
    progress: bool,
    goal: Goal,
) -> Compressed:
    """`compress` of a graph and samples, with a goal.

    Raises:
        PreconditionNotMetError, UnavailableError: As that.
    """
    if recipe.prune or recipe.max_milliseconds:  # norms get other statistics then
        network: Any = LoadedNetwork(steps.copied(program))
        batch = samples.batches(recipe.batch_size)[0]
        warn_of_other_range(network, batch, "compress")
    work = _Compression(program, samples, recipe, checkpoints, progress, goal)
    try:
        result = work.run()
    except PreconditionNotMetError:
        _write_report(folder, work, None)
        checkpoints.remove()
        raise
    file.write(result.program, folder / "model.proa", compressed=recipe.compressed)
    _write_report(folder, work, result.tried)
    checkpoints.remove()
    return Compressed(
        folder / "model.proa", result.tried, work.tried, work.metric_name, work.notes
    )


def _line(tried: TrialResult) -> str:
    time = "" if tried.milliseconds is None else f", {tried.milliseconds:.3f} ms"
    return (
        f"{tried.step}: {tried.metric:.2f} % ({0 - tried.drop:+.2f}), "
        f"{tried.file_bytes:,} bytes{time}"
    )


def _write_report(folder: Path, work: _Compression, chosen: TrialResult | None) -> None:
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
