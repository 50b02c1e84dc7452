"""Finding a repository's folder and running its ``hubconf.py``."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError
from proa.utils.weights import cache_folder

_FILE = "hubconf.py"


def _clone(where: str, repo: str, force: bool) -> Path:
    """A copy of a branch of the git repository ``path[:branch]`` in the cache."""
    path, _, branch = repo.partition(":") if not Path(repo).exists() else (repo, "", "")
    if not Path(path).exists():
        raise NotFoundError(
            f"[{where}] expected an existing git repository, got {path!r}"
        )
    source = str(Path(path).resolve())
    key = hashlib.sha256(f"{source}:{branch}".encode()).hexdigest()[:16]
    target = cache_folder("hub", f"{Path(source).name}_{key}")
    if target.exists() and not force:
        return target
    if shutil.which("git") is None:
        raise UnavailableError(f"[{where}] git is not installed")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["git", "clone", "--quiet", *(["--branch", branch] if branch else [])]
    done = subprocess.run(
        [*command, "--", source, str(target)], capture_output=True, text=True
    )
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        raise InvalidArgumentError(
            f"[{where}] {repo!r} must be a git repository with that branch, "
            f"got: {done.stderr.strip()}"
        )
    return target


def _cached(where: str, repo: str, source: str) -> Path:
    """The folder of ``owner/name[:branch]`` in the cache."""
    name, _, branch = repo.partition(":")
    if name.count("/") != 1:
        raise InvalidArgumentError(
            f"[{where}] repo_dir must have the form owner/name[:branch], got {repo!r}"
        )
    default = "main" if source == "github" else "master"
    folder = f"{name.replace('/', '_')}_{(branch or default).replace('/', '_')}"
    path = cache_folder("hub", folder)
    if not path.is_dir():
        raise UnavailableError(
            f"[{where}] no such folder: {path}; nothing is downloaded at run time: "
            f"clone {repo} there, or use source='local'"
        )
    return path


def _folder(where: str, repo: str, source: str, force: bool) -> Path:
    if source == "local":
        return Path(repo).expanduser()
    if source == "git":
        return _clone(where, repo, force)
    if source in ("github", "gitee"):
        return _cached(where, repo, source)
    raise InvalidArgumentError(
        f"[{where}] source must be github, gitee, git or local, got {source!r}"
    )


def _run(where: str, folder: Path) -> ModuleType:
    file = folder / _FILE
    if not file.is_file():
        raise NotFoundError(f"[{where}] expected {_FILE} in {folder}, got none")
    spec = importlib.util.spec_from_file_location("hubconf", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))  # its own modules are found first
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def entry_points(
    where: str, repo: str, source: str, force: bool
) -> dict[str, Callable[..., Any]]:
    """The functions that a repository's ``hubconf.py`` offers, by name."""
    module = _run(where, _folder(where, repo, source, force))
    needed = getattr(module, "dependencies", [])
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"[{where}] expected the modules {needed} to be installed, got none of "
            f"{missing}"
        )
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_")
    }
