"""From sources to a shared library, by the system's C++ compiler."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError
from proa.sysconfig import get_include

_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True)
class Recipe:
    """What is compiled and how."""

    sources: tuple[str, ...]
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = field(default=())

    def command(self, output: str) -> list[str]:
        """The compiler's command line."""
        return [
            *compiler(),
            *_FLAGS,
            *(f"-I{path}" for path in (get_include(), *self.include_dirs)),
            *self.compile_flags,
            *self.sources,
            "-o",
            output,
            *(f"-L{path}" for path in self.library_dirs),
            *self.link_flags,
            *(f"-l{name}" for name in self.libraries),
        ]

    def digest(self) -> str:
        """Changes with the sources, headers, flags and compiler."""
        text = hashlib.sha256(repr(self.command("")).encode())
        folders = {Path(source).parent for source in self.sources}
        local = (p for folder in folders for p in folder.glob("*.h*"))
        own = Path(get_include()).glob("**/*extension*/*.h")
        files = (*map(Path, self.sources), *sorted(local), *sorted(own))
        for path in files:
            text.update(path.read_bytes())
        return text.hexdigest()[:16]


def compiler() -> list[str]:
    """The C++ compiler's command: CXX of the environment, or the system's.

    Raises:
        UnavailableError: If there is none.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    for name in (*wanted[:1], "c++", "g++", "clang++"):
        if shutil.which(name):
            return [name, *(wanted[1:] if wanted and name == wanted[0] else [])]
    raise UnavailableError(
        "[cpp_extension] expected a C++17 compiler (CXX, c++, g++ or clang++), got none"
    )


def check_sources(where: str, sources: object) -> tuple[str, ...]:
    """The sources as absolute paths.

    Raises:
        InvalidArgumentError: If they are no paths of C++ files.
        NotFoundError: If one does not exist.
    """
    listed = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    if not isinstance(listed, Sequence) or not listed:
        raise InvalidArgumentError(
            f"[{where}] sources must be paths of C++ files, got {sources!r}"
        )
    for source in listed:
        if Path(source).suffix == ".cu":
            raise UnavailableError(
                f"[{where}] this build has no CUDA toolchain, got {source}"
            )
        if not Path(source).is_file():
            raise NotFoundError(
                f"[{where}] expected an existing source file, got {source}"
            )
    return tuple(str(Path(source).resolve()) for source in listed)


def build(recipe: Recipe, output: Path, verbose: bool = False) -> None:
    """Compile to `output`, which is either complete or as it was before.

    Raises:
        InvalidArgumentError: If the sources do not compile, with what the compiler
            says.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(suffix=".so", dir=output.parent)
    os.close(handle)
    try:
        command = recipe.command(part)
        if verbose:
            print(shlex.join(command), file=sys.stderr)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InvalidArgumentError(
                f"[cpp_extension] the sources do not compile:\n{done.stderr}"
            )
        if verbose and done.stderr:
            print(done.stderr, file=sys.stderr)
        os.chmod(part, 0o755)
        os.replace(part, output)
    finally:
        Path(part).unlink(missing_ok=True)


def get_build_directory(verbose: bool = False) -> str:
    """The folder of libraries that `load` builds.

    PROA_EXTENSION_DIR (or PADDLE_EXTENSION_DIR) of the environment, or
    ``~/.cache/proa_extensions``.
    """
    named = os.environ.get("PROA_EXTENSION_DIR") or os.environ.get(
        "PADDLE_EXTENSION_DIR"
    )
    path = Path(named) if named else Path.home() / ".cache" / "proa_extensions"
    path.mkdir(parents=True, exist_ok=True)
    if verbose:
        print(f"Extensions are built in {path}", file=sys.stderr)
    return str(path)
