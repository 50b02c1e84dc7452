"""Finds and reads the settings in a model's folder."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from proa_serving.models.settings import ModelSettings, read_settings
from proa_serving.protocol.errors import ModelLoadError

SETTINGS_FILES = ("config.toml", "config.json", "config.pbtxt")
_MAX_BYTES = 2**20


def find_settings(folder: Path) -> Path | None:
    """The settings file of a model's folder, if there is one.

    Raises:
        ModelLoadError: If there are several.
    """
    found = [path for name in SETTINGS_FILES if (path := folder / name).is_file()]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ModelLoadError(
            f"model {folder.name}", f"must have one settings file, got {names}"
        )
    return found[0] if found else None


def load_settings(path: Path, name: str, default: ModelSettings) -> ModelSettings:
    """The settings of model ``name`` in ``path``; ``default`` is what it leaves out.

    Raises:
        ModelLoadError: If the file cannot be read, is malformed, or says what is not
            known.
    """
    where = f"model {name}, {path.name}"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelLoadError(where, f"must be at most {_MAX_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(where, f"cannot be read: {error}") from error
    return read_settings(_parse(text, path.suffix, name, where), default, where)


def _parse(text: str, suffix: str, name: str, where: str) -> dict[str, Any]:
    if suffix == ".pbtxt":
        # Late: the other formats need no parser of it.
        from proa_serving.models.triton_config import settings_from_pbtxt

        return settings_from_pbtxt(text, name, where)
    try:
        held = _toml(text) if suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(where, f"must be well formed: {error!s:.200}") from None
    if not isinstance(held, dict):
        raise ModelLoadError(where, f"must be a table, got {held!r:.60}")
    return held


def _toml(text: str) -> dict[str, Any]:
    # Part of Python from 3.11 on; before, the package tomli, which is the same.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    held: dict[str, Any] = importlib.import_module(name).loads(text)
    return held
