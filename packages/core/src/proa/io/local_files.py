"""The folders of public data sets on this machine; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from proa.errors import NotFoundError


def data_folders(name: str) -> list[Path]:
    """Where files of the data set ``name`` are looked for, in order.

    ``$PROA_DATA_HOME/NAME`` and ``$PROA_DATA_HOME``, ``/usr/share/datasets/NAME``, the
    cache ``~/.cache/proa/NAME``, and that of Paddle, ``~/.cache/paddle/dataset/NAME``.
    """
    home = os.environ.get("PROA_DATA_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    return [
        *([Path(home) / name, Path(home)] if home else []),
        Path("/usr/share/datasets") / name,
        cache / "proa" / name,
        Path.home() / ".cache" / "paddle" / "dataset" / name,
    ]


def local_file(
    where: str,
    argument: str,
    given: str | os.PathLike[str] | None,
    name: str,
    files: Sequence[str],
    hint: str = "",
    folders: Sequence[Path] | None = None,
) -> Path:
    """The file given, or the first that exists in one of the data set's folders.

    Args:
        where: The class, for messages.
        argument: The argument that can give the file.
        given: The file, or None to look for it.
        name: The data set's folder.
        files: Names that the file may have.
        hint: What to do about a missing file.
        folders: Where to look, instead of ``data_folders(name)``.

    Raises:
        NotFoundError: If there is no such file.
    """
    if given is not None:
        if not Path(given).is_file():
            raise NotFoundError(f"[{where}] {argument} must be a file, got {given}")
        return Path(given)
    searched = data_folders(name) if folders is None else list(folders)
    for folder in searched:
        for file in files:
            if (folder / file).is_file():
                return folder / file
    raise NotFoundError(
        f"[{where}] expected {files[0]} in one of: {', '.join(map(str, searched))}; "
        f"got none. Nothing is downloaded: {hint or 'put the file there'}, or give "
        f"{argument}."
    )
