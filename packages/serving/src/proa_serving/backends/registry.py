"""Finds the backend of a model file by its suffix.

Backends are entry points of the group ``proa_serving.backends``, named by suffix
without the dot. A program may also register one itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from proa_serving.backends.base import Backend
from proa_serving.protocol.errors import ModelLoadError

GROUP = "proa_serving.backends"
_registered: dict[str, Callable[[], Backend]] = {}


def _inference() -> Backend:
    from proa_serving.backends.inference import InferenceBackend

    return InferenceBackend()


def _python() -> Backend:
    from proa_serving.backends.python import PythonBackend

    return PythonBackend()


# Also there without being installed, from a checkout.
_BUILT_IN: dict[str, Callable[[], Backend]] = {
    "proa": _inference,
    "onnx": _inference,
    "pdmodel": _inference,
    "py": _python,
}


def register_backend(suffix: str, make: Callable[[], Backend]) -> None:
    """Let ``make()`` load files that end in ``.suffix``, in this process."""
    _registered[suffix] = make


def known_suffixes() -> tuple[str, ...]:
    """Every suffix that some backend loads, without the dot."""
    installed = (entry.name for entry in entry_points(group=GROUP))
    return tuple(dict.fromkeys([*_BUILT_IN, *_registered, *installed]))


def find_backend(path: Path, suffix: str = "") -> Backend:
    """The backend for ``path``, by its suffix unless ``suffix`` names another.

    Raises:
        ModelLoadError: If no backend loads such files, or it cannot be imported.
    """
    suffix = suffix or path.suffix.removeprefix(".")
    if suffix in _registered:
        return _registered[suffix]()
    for entry in entry_points(group=GROUP, name=suffix):
        try:
            made: Backend = entry.load()()
        except ImportError as error:
            raise ModelLoadError(
                "backend", f"the backend of .{suffix} cannot be imported: {error}"
            ) from error
        return made
    if suffix in _BUILT_IN:
        return _BUILT_IN[suffix]()
    known = ", ".join(f".{name}" for name in known_suffixes())
    raise ModelLoadError("backend", f"model file must end in {known}, got {path.name}")
