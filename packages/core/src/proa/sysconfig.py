"""Where the headers and the library for C++ code against Proa are."""

from pathlib import Path as _Path

__all__ = ["get_include", "get_lib"]


def __dir__() -> list[str]:
    return __all__


_HERE = _Path(__file__).resolve().parent


def get_include() -> str:
    """The folder of the headers: ``#include "proa/extension.h"``."""
    installed = _HERE / "include"
    # In a source tree that was built in place they are next to the sources.
    return str(installed if installed.is_dir() else _HERE.parents[1] / "include")


def get_lib() -> str:
    """The folder of ``libproa_runtime.so``. Extensions need not link it."""
    return str(_HERE / "lib")
