"""Helpers of programs: unique names, cached weights, checks of the installation."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from proa.utils.deprecation import deprecated
from proa.utils.environment import require_version, run_check, try_import

if TYPE_CHECKING:
    from proa.utils import download, unique_name

__all__ = [
    "deprecated", "download", "require_version", "run_check", "try_import",
    "unique_name",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("cpp_extension", "dlpack", "download", "profiler", "unique_name"):
        return importlib.import_module(f"proa.utils.{name}")
    raise AttributeError(f"module 'proa.utils' has no attribute {name!r}")
