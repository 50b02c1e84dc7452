"""The rows, by family."""

import functools
import importlib
import pkgutil


@functools.cache
def load_rows() -> None:
    """Import every family, which adds its rows to the table."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
