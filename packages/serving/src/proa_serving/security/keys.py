"""API keys: a file of their hashes, and the check of what a client presents."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.security.watched import WatchedFiles

log = logging.getLogger("proa_serving")
_LINE = re.compile(r"(\S+)\s+sha256:([0-9a-fA-F]{64})(\s+admin)?")
_MAX_KEY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: a name from the file of keys, or an address."""

    name: str
    is_admin: bool = False


class ApiKeys:
    """The keys of a file, which is read again when it changes.

    Each line is ``NAME sha256:HEX``, and ``admin`` after it if the key may load and
    unload models; HEX is the SHA-256 of the key. Keys must be random, as tokens are:
    a fast hash does not protect a password. Lines that begin with # are comments.

    Raises:
        InvalidRequestError: If the file cannot be read, or a line is wrong.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watched = WatchedFiles(path)
        self._watched.changed()
        self._keys = self._load()

    def refresh(self) -> None:
        """Read the file again if it changed; one that is wrong is not used."""
        if not self._watched.changed():
            return
        try:
            self._keys = self._load()
        except InvalidRequestError as error:
            log.error("the old API keys stay in use: %s", error)
        else:
            log.info("%d API keys were loaded again", len(self._keys))

    def find(self, key: bytes) -> Caller | None:
        """Whose ``key`` it is, in a time that does not depend on the keys' bytes."""
        digest = hashlib.sha256(key[:_MAX_KEY_BYTES]).digest()
        found = None
        for held, caller in self._keys:
            if hmac.compare_digest(held, digest):
                found = caller
        return found

    def _load(self) -> list[tuple[bytes, Caller]]:
        try:
            lines = self._path.read_text("utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise InvalidRequestError(
                "api keys", f"the file cannot be read: {error}"
            ) from error
        found = []
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            parts = _LINE.fullmatch(text)
            if parts is None:  # The line is not repeated: it may be a bare key.
                raise InvalidRequestError(
                    "api keys",
                    f"{self._path}, line {number}: must be NAME sha256:HEX [admin]",
                )
            name, digest, admin = parts.groups()
            found.append((bytes.fromhex(digest), Caller(name, admin is not None)))
        if not found:
            raise InvalidRequestError("api keys", f"{self._path} must hold a key")
        return found
