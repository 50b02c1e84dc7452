"""Saves a network so that a server can serve it: the model file and its settings."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proa_serving.backends.base import BackendOptions
from proa_serving.backends.registry import find_backend
from proa_serving.config import check_name
from proa_serving.models.fit import fit_specs
from proa_serving.models.settings import ModelSettings, read_settings
from proa_serving.models.settings_file import find_settings, load_settings
from proa_serving.protocol.errors import InvalidRequestError, NotFoundError


def save_for_serving(
    model: Any,
    repository: str | Path,
    name: str,
    input_spec: Sequence[Any] | None = None,
    *,
    version: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a new version of a model into a repository that ``proa-serve`` serves.

    The file is opened as the server would before it is put in place, in one step: a
    server that polls the repository finds a whole version, or none.

    Args:
        model: A Layer or function, as ``proa.jit.save`` takes; or the path of a model
            file (``.proa``, ``.onnx``, or ``.pdmodel`` with ``.pdiparams``).
        repository: The folder of models; it is made where it is missing.
        name: The model's name.
        input_spec: What the inputs are, as for ``proa.jit.save``.
        version: A number that is not there yet; the next one where None.
        settings: As in ``config.json``, which is written with the model's inputs and
            outputs; where None, settings that are there stay.

    Returns:
        The folder of the version.

    Raises:
        InvalidRequestError: If the name or version cannot be.
        NotFoundError: If the path of a model is none.
        ModelLoadError: If the settings are not known, or the model cannot be served.

    >>> save_for_serving(net, "models", "small", spec)  # doctest: +SKIP
    PosixPath('models/small/1')
    """
    folder = Path(repository) / check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    number = _next_version(folder) if version is None else version
    target = folder / str(number)
    if number < 0 or target.exists():
        raise InvalidRequestError(
            "save_for_serving", f"version must be new and 0 or more, got {number}"
        )
    where = f"model {name}"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as directory:
        part = Path(directory, str(number))
        part.mkdir()
        file = _write(model, part, input_spec)
        loaded = find_backend(file).load(file, BackendOptions())
        held = {
            "inputs": [spec.to_json() for spec in loaded.inputs],
            "outputs": [spec.to_json() for spec in loaded.outputs],
            **(settings or {}),
        }
        path = find_settings(folder)
        if settings is not None and path is not None and path.suffix != ".json":
            raise InvalidRequestError(
                "save_for_serving",
                f"settings must be None where {path.name} is, got {list(settings)}",
            )
        if settings is not None or path is None:
            fit_specs(name, loaded, read_settings(held, ModelSettings(), where))
            new = Path(directory, "config.json")
            new.write_text(json.dumps(held, indent=2) + "\n", encoding="utf-8")
            new.replace(folder / "config.json")
        else:
            fit_specs(name, loaded, load_settings(path, name, ModelSettings()))
        part.rename(target)
    return target


def _next_version(folder: Path) -> int:
    numbers = [int(held.name) for held in folder.iterdir() if held.name.isdecimal()]
    return max(numbers, default=0) + 1


def _write(model: Any, folder: Path, input_spec: Sequence[Any] | None) -> Path:
    if not isinstance(model, str | Path):
        from proa import jit

        path = folder / "model.proa"
        jit.save(model, str(path), input_spec)
        return path
    source = Path(model)
    if not source.is_file():
        raise NotFoundError("save_for_serving", f"expected a file, got {source}")
    path = folder / f"model{source.suffix}"
    shutil.copyfile(source, path)
    weights = source.with_suffix(".pdiparams")
    if source.suffix == ".pdmodel" and weights.is_file():
        shutil.copyfile(weights, path.with_suffix(".pdiparams"))
    return path
