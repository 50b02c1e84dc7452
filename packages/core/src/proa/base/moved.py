"""Public names that another module has now: the old ones are found, with a warning.

A module does not know those above it: where its old names are is said at the top, by
`note_moved`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from typing import Any

#: (module, name) -> the module that has it now.
_PLACES: dict[tuple[str, str], str] = {}


def note_moved(module: str, place: str, names: Iterable[str]) -> None:
    """Say that another module has names that a module had."""
    _PLACES.update(((module, name), place) for name in names)


def moved(module: str, name: str) -> Any:
    """What a name that a module lacks stands for.

    Raises:
        AttributeError: If the module never had it.
    """
    place = _PLACES.get((module, name))
    if place is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        f"{module}.{name} is deprecated: it is {place}.{name} now",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(importlib.import_module(place), name)
