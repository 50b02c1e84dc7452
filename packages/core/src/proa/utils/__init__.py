"""Helpers of programs: unique names, cached weights, checks of the installation."""

import importlib as _importlib
import typing as _typing

from proa.utils.deprecation import deprecated
from proa.utils.environment import require_version, run_check, try_import

if _typing.TYPE_CHECKING:
    from proa.utils import cpp_extension as cpp_extension
    from proa.utils import dlpack as dlpack
    from proa.utils import download as download
    from proa.utils import profiler as profiler
    from proa.utils import unique_name as unique_name

#: Submodules that are imported when they are first named.
_MODULES = ("cpp_extension", "dlpack", "download", "profiler", "unique_name")

__all__ = ["deprecated", "require_version", "run_check", "try_import", *_MODULES]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return _importlib.import_module(f"proa.utils.{name}")
    raise AttributeError(f"module 'proa.utils' has no attribute {name!r}")
