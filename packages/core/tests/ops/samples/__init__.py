"""The records, one file for each family of rows. `load` imports them all."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Fill `sample.SAMPLES`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
