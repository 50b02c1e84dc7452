"""Libraries written for Paddle, from their wheels, with proa as `paddle`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import proa
from proa.static import InputSpec


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that `is_found` says, by name, as `make` makes them."""

    def __init__(
        self, is_found: Callable[[str], bool], make: Callable[[str], ModuleType]
    ) -> None:
        self.is_found, self.make = is_found, make

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not self.is_found(fullname):
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self.make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Absent(ModuleType):
    """A module that is imported, but not called, by what is tested."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _proa_for(name: str) -> ModuleType:
    return importlib.import_module("proa" + name.removeprefix("paddle"))


@contextmanager
def as_paddle(
    wheel: str = "proa",
    packages: Iterable[str] = (),
    absent: Iterable[str] = (),
    folder: str = ".",
) -> Iterator[None]:
    """`import paddle` gives proa, and a wheel's modules can be imported, within.

    Args:
        wheel: The package that the wheel installs, if it is about one.
        packages: Those of its packages whose own __init__.py, which imports everything,
            is left out.
        absent: Modules that are imported but not called, and need not be there.
        folder: Where its packages are, from the wheel's.
    """
    found = importlib.util.find_spec(wheel)
    assert found is not None and found.submodule_search_locations, f"{wheel} is needed"
    root = Path(found.submodule_search_locations[0], folder).resolve()
    before, left_out = dict(sys.modules), tuple(f"{name}." for name in absent)
    paddle = _Finder(lambda name: f"{name}.".startswith("paddle."), _proa_for)
    others = _Finder(lambda name: f"{name}.".startswith(left_out), _Absent)
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


def check_learning_and_export(
    network: Any,
    images: Any,
    loss_of: Callable[[Any], Any],
    optimizer: Any,
    steps: int,
    path: Path,
    output_of: Callable[[Any], Any] = lambda outputs: outputs,
) -> None:
    """The loss falls, and the saved network gives what the network itself gives.

    Args:
        network: A Layer of images.
        images: What it learns; the saved network takes any number of such.
        loss_of: The loss, from the network's output.
        optimizer: Optimizer of the network's parameters.
        steps: To take.
        path: Where the network is saved.
        output_of: One output, from what the network returns.
    """
    losses = []
    for _ in range(steps):
        loss = loss_of(output_of(network(images)))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    assert np.isfinite(losses).all()
    assert min(losses[1:]) < losses[0]
    network.eval()
    proa.jit.save(network, path, [InputSpec([None, *images.shape[1:]], "float32")])
    with proa.no_grad():
        want = output_of(network(images)).numpy()
    got = output_of(proa.jit.load(path)(images)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
