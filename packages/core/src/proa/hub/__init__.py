"""Models that a folder or a git repository offers by its ``hubconf.py``.

A ``hubconf.py`` defines functions (entry points) and may name modules that must be
installed in ``dependencies``. Nothing is downloaded: ``source="local"`` takes a folder,
``"git"`` a repository on this machine (``path`` or ``path:branch``), and ``"github"``
and ``"gitee"`` (``owner/name:branch``) look in the cache alone.
"""

import builtins as _builtins
import typing as _typing

from proa import errors as _errors
from proa.hub import source as _source

__all__ = ["help", "list", "load"]


def __dir__() -> _builtins.list[str]:
    return __all__


def list(
    repo_dir: str, source: str = "github", force_reload: bool = False
) -> _builtins.list[str]:
    """Names of the entry points."""
    return sorted(_source.entry_points("hub.list", repo_dir, source, force_reload))


def _entry(where: str, repo: str, model: str, source: str, force: bool) -> _typing.Any:
    entries = _source.entry_points(where, repo, source, force)
    if model not in entries:
        raise _errors.NotFoundError(
            f"[{where}] model must be one of {sorted(entries)}, got {model!r}"
        )
    return entries[model]


def help(
    repo_dir: str, model: str, source: str = "github", force_reload: bool = False
) -> str | None:
    """The docstring of an entry point."""
    entry = _entry("hub.help", repo_dir, model, source, force_reload)
    doc: str | None = entry.__doc__
    return doc


def load(
    repo_dir: str,
    model: str,
    source: str = "github",
    force_reload: bool = False,
    **kwargs: _typing.Any,
) -> _typing.Any:
    """What an entry point returns when it is called with ``kwargs``."""
    return _entry("hub.load", repo_dir, model, source, force_reload)(**kwargs)
