"""`import paddle` gives Proa: for programs and packages that name PaddlePaddle.

A finder of `sys.meta_path` answers for ``paddle`` and each of its submodules with the
module of Proa itself, so that a class has one identity by either name. Where Proa has
no such module there is a ModuleNotFoundError.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from proa.errors import AlreadyExistsError

__all__ = ["install_as_paddle"]

_NAME = "paddle"
#: Modules of Paddle that programs import, and what there is in their place.
_GONE = {
    "paddle.fluid": "it ended with Paddle 2.5; `proa migrate` rewrites programs of it",
}


def __dir__() -> list[str]:
    return __all__


def _own_name(name: str) -> str:
    return "proa" + name.removeprefix(_NAME)


class _Known(Loader):
    """Gives a module that is imported already, and leaves it as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just made it the spec of the other name.
        module.__spec__ = self._spec


class _Finder(MetaPathFinder):
    """Finds ``paddle`` and ``paddle.*`` as the modules of Proa."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _NAME:
            return None
        if fullname in _GONE:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: {_GONE[fullname]}", name=fullname
            )
        name = _own_name(fullname)
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: Proa has no {name}", name=fullname
            )
        return ModuleSpec(fullname, _Known(importlib.import_module(name)))


def install_as_paddle() -> None:
    """Let ``import paddle`` and its submodules give Proa's, from now on.

    The package ``proa-paddle-alias`` does this by the first ``import paddle``.

    Raises:
        AlreadyExistsError: If another package `paddle` has been imported.
    """
    known, own = sys.modules.get(_NAME), importlib.import_module("proa")
    if known not in (None, own) and not hasattr(known, "__proa_alias__"):
        raise AlreadyExistsError(
            "[install_as_paddle] expected no imported module paddle, got "
            f"{getattr(known, '__file__', known)}"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[_NAME] = own
