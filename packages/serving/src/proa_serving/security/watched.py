"""Notices that files were replaced."""

from __future__ import annotations

from pathlib import Path


class WatchedFiles:
    """Files that are looked at now and then.

    Args:
        paths: The files; symbolic links are followed, as secrets are replaced by them.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen: tuple[object, ...] | None = None

    def changed(self) -> bool:
        """Whether a file differs from what the last call saw; True at first."""
        seen = tuple(_identity(path) for path in self._paths)
        changed, self._seen = seen != self._seen, seen
        return changed


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_dev, held.st_ino, held.st_mtime_ns, held.st_size
