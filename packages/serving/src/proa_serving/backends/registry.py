"""Finds the backend of a model file by its suffix.

Backends are entry points of the group ``proa_serving.backends``, named by suffix
without the dot. A program may also register one itself. Those of this package come
before installed ones, so that a server of its models need not look for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from proa_serving.backends.base import Backend
from proa_serving.protocol.errors import ModelLoadError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

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


def known_suffixes() -> Iterator[str]:
    """Every suffix that some backend loads, without the dot, once."""
    own = dict.fromkeys([*_BUILT_IN, *_registered])
    yield from own
    yield from dict.fromkeys(e.name for e in _installed() if e.name not in own)


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # takes longer than all of this file

    return entry_points(group=GROUP)


def find_backend(path: Path, suffix: str = "") -> Backend:
    """The backend for ``path``, by its suffix unless ``suffix`` names another.

    Raises:
        ModelLoadError: If no backend loads such files, or it cannot be imported.
    """
    suffix = suffix or path.suffix.removeprefix(".")
    if suffix in _registered:
        return _registered[suffix]()
    if suffix in _BUILT_IN:
        return _BUILT_IN[suffix]()
    for entry in _installed().select(name=suffix):
        try:
            backend: Backend = entry.load()()
        except ImportError as error:
            raise ModelLoadError(
                "backend", f"the backend of .{suffix} cannot be imported: {error}"
            ) from error
        return backend
    known = ", ".join(f".{name}" for name in known_suffixes())
    raise ModelLoadError("backend", f"model file must end in {known}, got {path.name}")
