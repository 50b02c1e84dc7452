"""Extensions as packages, built by setuptools (which is only imported here).

The package is one module: a library of operators, and a Python file that loads it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, NoReturn

from proa.errors import InvalidArgumentError, UnavailableError
from proa.utils.cpp_extension.compile import Recipe, build, check_sources

_MODULE = '''"""Operators in C++. Made by proa.utils.cpp_extension."""

from pathlib import Path

from proa.utils.cpp_extension import load_library

globals().update(load_library(Path(__file__).with_name("{library}")))
'''


def _setuptools() -> Any:
    try:
        importlib.import_module("setuptools.command.build_ext")
        return importlib.import_module("setuptools")
    except ImportError as error:
        raise UnavailableError(
            "[cpp_extension.setup] setuptools is not installed"
        ) from error


def CppExtension(sources: Any, *args: Any, **kwargs: Any) -> Any:
    """What `setup` is to build: C++ sources, and setuptools' keywords for them
    (include_dirs, library_dirs, libraries, extra_compile_args, extra_link_args).
    """
    kwargs.setdefault("name", "proa_extension")
    files = list(check_sources("CppExtension", sources))
    return _setuptools().Extension(kwargs.pop("name"), files, *args, **kwargs)


def CUDAExtension(sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Sources for CUDA, which this build cannot use.

    Raises:
        UnavailableError: Always.
    """
    raise UnavailableError(
        "[CUDAExtension] this build has no CUDA toolchain; use CppExtension"
    )


def _flags(given: Any) -> tuple[str, ...]:
    if isinstance(given, dict):
        given = given.get("cxx", ())
    return tuple(given or ())


def _command() -> Any:
    base: Any = _setuptools().command.build_ext.build_ext

    class _BuildExtension(base):  # type: ignore[misc]  # known at run time only
        """setuptools' build_ext, for extensions of Proa."""

        def get_ext_filename(self, name: str) -> str:
            return f"{name.replace('.', '/')}_ops.so"

        def get_outputs(self) -> list[str]:
            found: list[str] = super().get_outputs()
            return [*found, *(p.replace("_ops.so", ".py") for p in found)]

        def build_extension(self, ext: Any) -> None:
            library = Path(self.get_ext_fullpath(ext.name))
            recipe = Recipe(
                sources=check_sources("setup", ext.sources),
                compile_flags=_flags(ext.extra_compile_args),
                link_flags=_flags(ext.extra_link_args),
                include_dirs=tuple(ext.include_dirs),
                library_dirs=tuple(ext.library_dirs),
                libraries=tuple(ext.libraries),
            )
            build(recipe, library)
            module = library.with_name(library.name.replace("_ops.so", ".py"))
            module.write_text(_MODULE.format(library=library.name))

    return _BuildExtension


class BuildExtension:
    """The ``build_ext`` command of `setup`; ``BuildExtension.with_options()`` for
    setuptools' own setup.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _command()(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """A command class for ``cmdclass={"build_ext": ...}``."""
        return _command()


def setup(**attr: Any) -> None:
    """setuptools' setup for one extension, which becomes the module ``name``.

    ``setup(name="my_ops", ext_modules=CppExtension(["relu.cc"]))`` in a setup.py; then
    ``pip install --no-build-isolation .`` and ``import my_ops``.

    Raises:
        InvalidArgumentError: If name is no identifier or ext_modules no CppExtension.
    """
    name, extensions = attr.get("name"), attr.pop("ext_modules", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidArgumentError(f"[setup] name must be an identifier, got {name!r}")
    listed = extensions if isinstance(extensions, (list, tuple)) else [extensions]
    if len(listed) != 1 or not hasattr(listed[0], "sources"):
        raise InvalidArgumentError(
            f"[setup] ext_modules must be one CppExtension, got {extensions!r}"
        )
    listed[0].name = name
    commands = {"build_ext": _command(), **attr.pop("cmdclass", {})}
    attr.setdefault("version", "0.0.0")
    attr.setdefault("packages", [])
    attr.setdefault("py_modules", [])
    attr.setdefault("zip_safe", False)
    _setuptools().setup(ext_modules=list(listed), cmdclass=commands, **attr)
