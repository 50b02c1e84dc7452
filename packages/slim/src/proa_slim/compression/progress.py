"""Checkpoints of a compression: finished trials and epochs."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from proa.base import files
from proa.errors import PreconditionNotMetError
from proa.ir import file
from proa.ir.program import Program
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import Samples


@dataclass(frozen=True)
class TrialResult:
    """A model that was made and measured.

    Attributes:
        step: How it was made.
        metric: Percentage of the samples that were kept apart.
        drop: Below the model that was given, in points.
        file_bytes: Bytes of its file.
        milliseconds: Time of one sample by `proa-infer bench`; None without it.
        multiply_adds: Multiply-adds of one sample.
    """

    step: str
    metric: float
    drop: float
    file_bytes: int
    milliseconds: float | None
    multiply_adds: int


@dataclass(frozen=True)
class Finished:
    """A trial: its model, its measures, and what stayed as it was, with the reason."""

    program: Program
    tried: TrialResult
    notes: list[str]


class _Trial(TypedDict):
    tried: dict[str, object]
    notes: list[str]


class _State(TypedDict):
    fingerprint: str
    trials: list[_Trial]
    shares: dict[str, float]


class Progress:
    """Finished trials and epochs, each written in one step.

    Args:
        folder: Folder of a compression's output; a folder in it is used.
        fingerprint: Fingerprint of the model, the data and the recipe.
        resume: Whether what the folder has counts; it is emptied if not.

    Raises:
        PreconditionNotMetError: If `resume` finds trials of something else.
    """

    def __init__(self, folder: Path, fingerprint: str, resume: bool) -> None:
        self.folder = folder / "progress"
        self._path = self.folder / "state.json"
        self._state: _State = {"fingerprint": fingerprint, "trials": [], "shares": {}}
        if resume and self._path.is_file():
            state: _State = json.loads(self._path.read_text(encoding="utf-8"))
            if state["fingerprint"] != fingerprint:
                raise PreconditionNotMetError(
                    "[compress] resume expected trials of this model, data and recipe "
                    f"in {self.folder}, got those of others"
                )
            self._state = state
        elif not resume:
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Delete it: the compression is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- trials ------------------------------------------------------------------------
    def find(self, step: str) -> Finished | None:
        """The trial of this step, if it was finished."""
        for number, trial in enumerate(self._state["trials"]):
            if trial["tried"]["step"] == step:
                program = file.read(self._model(number))
                tried = TrialResult(**trial["tried"])  # type: ignore[arg-type]
                return Finished(program, tried, list(trial["notes"]))
        return None

    def next_model(self) -> Path:
        """Where the file of the next trial belongs."""
        return self._model(len(self._state["trials"]))

    def add(self, tried: TrialResult, notes: list[str]) -> None:
        """Keep a trial whose model is at `next_model`."""
        self._state["trials"].append({"tried": asdict(tried), "notes": notes})
        self._write()

    def _model(self, number: int) -> Path:
        return self.folder / f"{number}.proa"

    # -- shares that were found --------------------------------------------------------
    def share(self, name: str) -> float | None:
        """A number that was noted."""
        return self._state["shares"].get(name)

    def note_share(self, name: str, value: float) -> None:
        """Keep a number."""
        self._state["shares"][name] = value
        self._write()

    def _write(self) -> None:
        text = json.dumps(self._state, indent=1)
        files.replace(self._path, [text.encode()], where="compress")


def fingerprint(program: Program, samples: Samples, recipe: Recipe) -> str:
    """A SHA-256 digest of all that a compression's result depends on."""
    found = hashlib.sha256(file.to_bytes(program))
    arrays = [*samples.inputs]
    if samples.labels is not None:
        arrays.append(samples.labels)
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    found.update(json.dumps(recipe.as_dict(), sort_keys=True, default=str).encode())
    return found.hexdigest()
