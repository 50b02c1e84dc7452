"""Shared libraries with operators -> Python functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from proa import _core
from proa.errors import InvalidArgumentError
from proa.schema.extension import add_row
from proa.utils.cpp_extension.compile import (
    Recipe,
    build,
    check_sources,
    get_build_directory,
)


def load_library(path: str | os.PathLike[str]) -> dict[str, Callable[..., Any]]:
    """Load a built extension; its operators by name, without those of gradients.

    From then on recorded graphs and model files may name the operators.

    Raises:
        UnavailableError: If the file is no extension, or of another version.
        InvalidArgumentError: If an operator is declared wrongly.
    """
    functions: dict[str, Callable[..., Any]] = {}
    loaded = _core.load_extension(os.fspath(Path(path).resolve()))
    names = {name for name, *_ in loaded}
    for name, _, outputs, attributes, function in loaded:
        if all(kind == "one" for _, kind in outputs):
            add_row(name, [output for output, _ in outputs], attributes)
        setattr(_core.ops, name, function)
        base = name.removesuffix("_grad").removesuffix("_grad")
        if base == name or base not in names:
            functions[name] = function
    return functions


def load(
    name: str,
    sources: Sequence[str | os.PathLike[str]],
    extra_cxx_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    extra_library_paths: Sequence[str] | None = None,
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    interpreter: object = None,
) -> ModuleType:
    """Build an extension, unless the same was built before, and load it.

    Args:
        name: Name of the module that is returned.
        sources: C++ files.
        extra_cxx_cflags: Further flags for the compiler.
        extra_cuda_cflags: Without effect: there are no CUDA sources.
        extra_ldflags: Further flags for the linker.
        extra_include_paths: Further folders of headers.
        extra_library_paths: Further folders of libraries.
        build_directory: Where the library is kept; `get_build_directory()` if None.
        verbose: Show the compiler's command and warnings.
        interpreter: Without effect: the extension serves any Python.

    Returns:
        A module with a function for each operator.

    Raises:
        InvalidArgumentError: If the sources do not compile or declare nothing sound.
        NotFoundError: If a source does not exist.
        UnavailableError: If there is no compiler, or for CUDA sources.
    """
    if not str(name).isidentifier():
        raise InvalidArgumentError(f"[load] name must be an identifier, got {name!r}")
    recipe = Recipe(
        sources=check_sources("load", sources),
        compile_flags=tuple(extra_cxx_cflags or ()),
        link_flags=tuple(extra_ldflags or ()),
        include_dirs=tuple(extra_include_paths or ()),
        library_dirs=tuple(extra_library_paths or ()),
    )
    folder = Path(build_directory or get_build_directory(verbose))
    library = folder / f"{name}-{recipe.digest()}.so"
    if not library.is_file():
        build(recipe, library, verbose)
    return as_module(name, library)


def as_module(name: str, library: Path) -> ModuleType:
    """A module of the library's operators."""
    module = ModuleType(name, f"Operators of {library.name}.")
    module.__file__ = str(library)
    functions = load_library(library)
    vars(module).update(functions)
    vars(module)["__all__"] = list(functions)
    return module
