"""Runs models that are Python files.

Such a file has ``inputs`` and ``outputs``, lists of ``(name, datatype, shape)``, and
one of these:

- ``def run(inputs)``, called by the model's workers;
- ``def instance()``, which makes such a function for each worker;
- ``async def run(inputs, infer)``, a pipeline over other models of the server.

Loading a file runs it, so the server must be started with ``--python-models``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from proa_serving.backends.base import BackendOptions, Instance
from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import Array, TensorSpec


class PythonModel:
    """The functions of a file. ``is_pipeline`` tells which kind ``run`` is."""

    platform = "python"

    def __init__(self, module: ModuleType, where: str) -> None:
        self.inputs = _specs(module, "inputs", where)
        self.outputs = _specs(module, "outputs", where)
        # Whether rows depend on each other cannot be seen; the file may say.
        self.runs_apart = not getattr(module, "batches", False)
        run = getattr(module, "run", None)
        make = getattr(module, "instance", None)
        if not callable(run) and not callable(make):
            raise ModelLoadError(where, "must have a function run or instance")
        self.run: Callable[..., Any] = run if callable(run) else _no_run
        self._make: Callable[[], Callable[..., Any]] = (
            make if callable(make) else lambda: self.run
        )
        self.is_pipeline = inspect.iscoroutinefunction(run)

    def instance(self) -> Instance:
        run = self._make()
        dtypes = {
            spec.name: datatype_of(spec.datatype, spec.name).dtype
            for spec in self.outputs
        }

        def call(arrays: dict[str, Array]) -> Mapping[str, Array]:
            found = run(arrays)
            return {
                name: np.asarray(value, dtypes.get(name))
                for name, value in found.items()
            }

        return call


def _no_run(*_: object) -> None:
    raise TypeError("the model is run by its instances")


def _specs(module: ModuleType, name: str, where: str) -> tuple[TensorSpec, ...]:
    held = getattr(module, name, None)
    try:
        specs = tuple(
            TensorSpec(str(name), str(datatype), tuple(map(int, shape)))
            for name, datatype, shape in held or ()
        )
    except (TypeError, ValueError) as error:
        raise ModelLoadError(
            where, f"{name} must be a list of (name, datatype, shape): {error}"
        ) from error
    if not specs:
        raise ModelLoadError(where, f"must have {name}")
    for spec in specs:
        datatype_of(spec.datatype, where)
    return specs


class PythonBackend:
    """Loads ``.py`` files."""

    def load(self, path: Path, options: BackendOptions) -> PythonModel:
        where = f"load {path.name}"
        # The same for each load of a file, so that reloads leave nothing behind.
        digest = hashlib.sha256(str(path.parent.parent / path.name).encode())
        name = f"proa_serving_model_{digest.hexdigest()[:16]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ModelLoadError(where, "must be a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look themselves up there
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ModelLoadError(where, f"failed to run: {error!r:.300}") from error
        return PythonModel(module, where)
