"""Model files of PaddlePaddle where those of Proa are expected."""

from __future__ import annotations

import importlib
import os
from typing import Any

from proa.errors import InvalidArgumentError


def is_foreign(path: str | os.PathLike[str] | None) -> bool:
    """Whether Paddle's files are under a path or prefix, and none of Proa's."""
    if path is None:
        return False
    name = os.fspath(path)
    if os.path.isdir(name):
        return not os.path.exists(f"{name}.proa")
    if name.endswith(".pdmodel"):
        return True
    mine = any(map(os.path.isfile, (name, f"{name}.proa")))
    return not mine and os.path.isfile(f"{name}.pdmodel")


def load_foreign(path: str | os.PathLike[str] | None, **names: Any) -> Any:
    """The Layer of Paddle's files, by their importer.

    That is above this package, and needs an extra: it is imported when it is used.
    """
    importer = importlib.import_module("proa.interop.paddle.importer.load")
    return importer.load(path, **names)


def exporter_of(where: str, kind: object) -> Any:
    """What writes Layers and programs in a format other than Proa's.

    Raises:
        InvalidArgumentError: If there is none for this format.
    """
    if kind != "paddle":
        raise InvalidArgumentError(
            f"[{where}] expected the format proa or paddle, got {kind!r}"
        )
    return importlib.import_module("proa.interop.paddle.exporter.save")
