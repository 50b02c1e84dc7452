"""Libraries written for Paddle, from their wheels, with proa as `paddle`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


class _Paddle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `paddle` and its submodules: they are proa's."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "paddle":
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module("proa" + spec.name.removeprefix("paddle"))

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Absent(ModuleType):
    """A module that is imported, but not called, by what is tested."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class _AbsentOnes(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of these names, and what is in them, to be absent."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not any(f"{fullname}.".startswith(f"{name}.") for name in self.names):
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def as_paddle(
    wheel: str, packages: Iterable[str], absent: Iterable[str] = (), folder: str = "."
) -> Iterator[None]:
    """`import paddle` gives proa, and a wheel's modules can be imported, within.

    Args:
        wheel: The package that the wheel installs.
        packages: Those of its packages whose own __init__.py, which imports everything,
            is left out.
        absent: Modules that are imported but not called, and need not be there.
        folder: Where its packages are, from the wheel's.
    """
    found = importlib.util.find_spec(wheel)
    assert found is not None and found.submodule_search_locations, f"{wheel} is needed"
    root = Path(found.submodule_search_locations[0], folder).resolve()
    before, paddle, others = dict(sys.modules), _Paddle(), _AbsentOnes(absent)
    for name in packages:
        module = ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = module
    sys.meta_path.insert(0, paddle)
    sys.meta_path.insert(0, others)
    try:
        yield
    finally:
        sys.meta_path.remove(paddle)
        sys.meta_path.remove(others)
        for name in set(sys.modules) - set(before):
            if not name.startswith("proa"):
                del sys.modules[name]
