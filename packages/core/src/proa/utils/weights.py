"""The cache of weights, and files in it by their address."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from proa.errors import InvalidArgumentError, UnavailableError


def cache_folder(*parts: str) -> Path:
    """A folder of the user's cache: $PROA_HOME, or proa in $XDG_CACHE_HOME."""
    home = os.environ.get("PROA_HOME")
    if home is None:
        home = str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "proa")
    return Path(home).expanduser().joinpath(*parts)


def _checked(path: Path, md5sum: str | None) -> str:
    if md5sum is not None:
        digest = hashlib.md5(usedforsecurity=False)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != md5sum:
            raise InvalidArgumentError(
                f"[download] the MD5 sum of {path} must be {md5sum}, "
                f"got {digest.hexdigest()}"
            )
    return str(path)


def get_path_from_url(url: str, root_dir: str | Path, md5sum: str | None = None) -> str:
    """The path of the file of that address in ``root_dir``, or of a ``file:`` address.

    Raises:
        UnavailableError: If it is not there; the message says where to put it.
        InvalidArgumentError: If its MD5 sum is another.
    """
    parsed = urlparse(url)
    if parsed.scheme == "file":
        path = Path(unquote(parsed.path))
    else:
        path = Path(root_dir) / Path(unquote(parsed.path)).name
    if not path.is_file():
        raise UnavailableError(
            f"[download] no such file: {path}; nothing is downloaded at run time: put "
            f"the file of {url} there"
        )
    return _checked(path, md5sum)


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of pretrained weights in the cache's folder ``weights``."""
    return get_path_from_url(url, cache_folder("weights"), md5sum)


def _get_unique_endpoints(trainer_endpoints: Sequence[str]) -> set[str]:
    """The first of each machine's endpoints ``address:port``; libraries import it."""
    first: dict[str, str] = {}
    for endpoint in trainer_endpoints:
        first.setdefault(endpoint.rpartition(":")[0], endpoint)
    return set(first.values())
