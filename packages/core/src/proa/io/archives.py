"""Members of archives, read without trusting them."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError

# What a pickled dictionary of arrays needs, by the module names old and new.
_ALLOWED = {
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
    ("numpy.core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer"),
}  # fmt: skip


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise InvalidArgumentError(
                f"[read_pickled_arrays] the file must hold arrays, got {module}.{name}"
            )
        if module.startswith("numpy.core"):
            try:
                return super().find_class(module.replace("core", "_core", 1), name)
            except (ImportError, AttributeError):
                pass
        return super().find_class(module, name)


def read_pickled_arrays(file: Any) -> dict[Any, Any]:
    """The pickled dictionary of arrays, lists, texts and numbers in a file.

    No other object is made, so a file from elsewhere cannot run code.

    Raises:
        InvalidArgumentError: If the file holds anything else or is damaged.
    """
    try:
        value = _Arrays(file, encoding="bytes").load()
    except InvalidArgumentError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise InvalidArgumentError(
            f"[read_pickled_arrays] the file must be a pickle, got: {error}"
        ) from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            "[read_pickled_arrays] the file must hold a dictionary, "
            f"got {type(value).__name__}"
        )
    return value


def open_tar(path: Path, where: str) -> tarfile.TarFile:
    """The tar file, which may be compressed.

    Raises:
        InvalidArgumentError: If it is none.
    """
    try:
        return tarfile.open(path)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InvalidArgumentError(
            f"[{where}] {path} must be a tar file, got: {error}"
        ) from None


def tar_member(archive: tarfile.TarFile, name: str, where: str) -> bytes:
    """The bytes of a member; a leading ``./`` in its name does not matter.

    Raises:
        NotFoundError: If there is no such file in the archive.
    """
    for candidate in (name, f"./{name}"):
        try:
            file = archive.extractfile(candidate)
        except KeyError:
            continue
        if file is not None:
            return file.read()
    raise NotFoundError(
        f"[{where}] expected {name} in {archive.name!r}, got no such file"
    )
