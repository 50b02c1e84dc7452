"""Public names are those that ``__all__`` lists, and each of them is documented."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import proa
import proa.nn

ROOT = Path(__file__).parents[2]


def _generator() -> ModuleType:
    path = ROOT / "tools" / "api_reference.py"
    spec = importlib.util.spec_from_file_location("api_reference", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()
MODULES: list[str] = GENERATOR.public_modules()
PACKAGES: tuple[str, ...] = GENERATOR.TOPS
#: Public modules that offer a name only where this package is installed.
NEEDS = {"proa_serving.client": "grpc"}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    if request.param in NEEDS:
        pytest.importorskip(NEEDS[request.param])
    return importlib.import_module(request.param)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    written = GENERATOR.write(tmp_path_factory.mktemp("api"))
    return {path.stem: path.read_text(encoding="utf-8") for path in written}


def test_the_public_modules_of_all_packages_are_found() -> None:
    assert {*PACKAGES, "proa.nn.functional", "proa.fft", "proa.errors",
            "proa.device.cuda", "proa.static.amp.bf16", "proa.utils.cpp_extension",
            "proa.vision.image", "proa_serving.client"} <= set(MODULES)  # fmt: skip
    assert not [name for name in MODULES if re.search(r"\._|proa\.(base|ir)\b", name)]


def test_a_public_module_shows_what_it_lists_and_nothing_else(
    module: ModuleType,
) -> None:
    listed = module.__all__
    assert len(set(listed)) == len(listed)
    assert not [name for name in listed if name.startswith("_")]
    assert not [name for name in listed if not hasattr(module, name)]
    assert dir(module) == sorted(listed)


def test_a_public_module_has_no_helpers_among_its_attributes(
    module: ModuleType,
) -> None:
    """Public names, else only private ones, and the modules of its own folder, which
    Python makes attributes when it imports them."""
    own = {
        name
        for name, value in vars(module).items()
        if inspect.ismodule(value) and value.__name__ == f"{module.__name__}.{name}"
    }
    public = {name for name in vars(module) if not name.startswith("_")}
    assert public - own <= set(module.__all__)


def test_public_functions_and_classes_have_docstrings(module: ModuleType) -> None:
    assert module.__doc__
    missing = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            ours = value.__module__.startswith("proa")
            documented = bool(vars(value).get("__doc__"))
        else:
            ours, documented = inspect.isroutine(value), bool(inspect.getdoc(value))
        if ours and not documented:
            missing.append(name)
    assert not missing


def _callables(module: ModuleType) -> Iterator[Any]:
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) and value.__module__.startswith("proa"):
            yield value


def test_public_functions_and_classes_are_pickled_by_name(module: ModuleType) -> None:
    changed = []
    for value in _callables(module):
        if pickle.loads(pickle.dumps(value)) is not value:
            changed.append(value.__qualname__)
    assert not changed


def test_a_pickled_function_is_found_by_another_process() -> None:
    functions = [proa.erf, proa.bmm, proa.load, proa.nn.functional.relu, proa.seed]
    program = (
        "import pickle, sys\n"
        "functions = pickle.load(sys.stdin.buffer)\n"
        "import proa\n"
        "from proa.nn.functional import relu\n"
        "assert functions == [proa.erf, proa.bmm, proa.load, relu, proa.seed]\n"
    )
    given = pickle.dumps(functions)
    subprocess.run([sys.executable, "-c", program], input=given, check=True)


def test_public_functions_have_signatures_and_sources(module: ModuleType) -> None:
    """What `help()`, completion and go-to-definition read of an installed package."""
    for value in _callables(module):
        if inspect.isclass(value):
            continue
        assert inspect.signature(value), value
        home = importlib.import_module(value.__module__)
        assert hasattr(home, value.__name__), value
        if inspect.isbuiltin(value):  # an operator: its stub is shown instead
            stub = Path(proa.__file__).with_name("_core") / "ops.pyi"
            assert f"def {value.__name__}(" in stub.read_text(encoding="utf-8")
        else:
            source = inspect.getsourcefile(inspect.unwrap(value))
            assert source == inspect.getsourcefile(home), value


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (proa.erf, "erf(x, name=None)"),
        (proa.Tensor.erf, "erf(x, name=None)"),
        (proa.bmm, "bmm(x: 'Tensor', y: 'Tensor', name: 'str | None' = None)"),
        (proa.Tensor.bmm, "bmm(x: 'Tensor', y: 'Tensor', name: 'str | None' = None)"),
    ],
)
def test_help_shows_signature_and_doc(function: Any, line: str) -> None:
    text = pydoc.plain(pydoc.render_doc(function))
    assert line in text
    assert inspect.getdoc(function).splitlines()[0] in text


def test_the_reference_has_every_public_name(
    module: ModuleType, pages: dict[str, str]
) -> None:
    page = pages[module.__name__]
    described = set(re.findall(r"^### (\w+)$", page, re.M))
    described |= set(re.findall(r"`(\w+)` \(\[", page))
    described |= {n for n in module.__all__ if inspect.ismodule(getattr(module, n))}
    assert described == set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_shown_that_was_imported_later(package: str) -> None:
    """What other imports add to a package's namespace leaves completion as it is."""
    program = (
        "import importlib, pkgutil, sys\n"
        f"import {package} as package\n"
        "before = dir(package)\n"
        "for info in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if '__main__' in info.name: continue\n"
        "    try: importlib.import_module(info.name)\n"
        "    except ImportError: pass\n"
        "assert dir(package) == before == sorted(package.__all__), before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
