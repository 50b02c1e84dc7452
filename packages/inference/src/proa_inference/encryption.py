"""Models encrypted by AES-256-GCM. Needs the extra ``proa-inference[encryption]``.

An encrypted file is, in order:

    bytes   content
    8       "PROAENC" and the version of this format, 1
    12      nonce, random for each file
    4       zero
    n       the file encrypted, as long as it was
    16      tag of the first 24 bytes, as associated data, and of the n bytes

The algorithm is that of NIST SP 800-38D. The plain model is in memory alone.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proa.base.files import Replacement, read, replace_all
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnavailableError,
    VersionError,
)

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

Key = bytes

MAGIC, FORMAT = b"PROAENC", 1
_HEADER = struct.Struct("<7sB12sI")
KEY_BYTES, TAG_BYTES = 32, 16
#: Bytes that are encrypted at once: the library takes less than 2 GB.
_CHUNK = 1 << 26


def is_encrypted(content: Buffer) -> bool:
    """Whether bytes begin as an encrypted model does."""
    return bytes(memoryview(content)[: len(MAGIC)]) == MAGIC


def generate_key() -> Key:
    """A random key of 32 bytes."""
    return os.urandom(KEY_BYTES)


def encrypt(content: Buffer, key: Key) -> bytes:
    """The encrypted bytes of a model file.

    Args:
        content: A model file's bytes.
        key: 32 bytes.

    Raises:
        InvalidArgumentError: If the key has another size.
        UnavailableError: If the package `cryptography` is not installed.
    """
    nonce = os.urandom(12)
    header = _HEADER.pack(MAGIC, FORMAT, nonce, 0)
    algorithms, modes, cipher = _library()
    worker = cipher(algorithms.AES(_checked(key)), modes.GCM(nonce)).encryptor()
    worker.authenticate_additional_data(header)
    parts = [header, *(worker.update(part) for part in _chunks(memoryview(content)))]
    parts.append(worker.finalize())
    return b"".join([*parts, worker.tag])


def decrypt(content: Buffer, key: Key | Callable[[], Key] | None) -> bytes:
    """The model file that `encrypt` was given.

    Args:
        content: Encrypted bytes.
        key: 32 bytes, or a function that returns them, called once.

    Raises:
        PreconditionNotMetError: If there is no key.
        InvalidArgumentError: If the bytes were changed or the key is another.
        VersionError: If the format is of a later version.
        UnavailableError: If the package `cryptography` is not installed.
    """
    view = memoryview(content)
    if len(view) < _HEADER.size + TAG_BYTES or not is_encrypted(view):
        raise InvalidArgumentError(
            "[decrypt] expected an encrypted model of at least "
            f"{_HEADER.size + TAG_BYTES} bytes, got {len(view)} bytes"
        )
    _, version, nonce, _ = _HEADER.unpack_from(view)
    if version != FORMAT:
        raise VersionError(
            f"[decrypt] expected version {FORMAT} of the format of encrypted models, "
            f"got {version}"
        )
    if key is None:
        raise PreconditionNotMetError(
            "[decrypt] expected a key by Config.set_cipher_key for an encrypted "
            "model, got none"
        )
    given = _checked(key() if callable(key) else key)
    algorithms, modes, cipher = _library()
    tag = bytes(view[-TAG_BYTES:])
    worker = cipher(algorithms.AES(given), modes.GCM(nonce, tag)).decryptor()
    worker.authenticate_additional_data(bytes(view[: _HEADER.size]))
    plain = bytearray()
    for part in _chunks(view[_HEADER.size : -TAG_BYTES]):
        plain += worker.update(part)
    from cryptography.exceptions import InvalidTag

    try:
        worker.finalize()
    except InvalidTag:
        raise InvalidArgumentError(
            "[decrypt] expected the key and the bytes that the model was encrypted "
            "with, got another key or bytes that were changed"
        ) from None
    return bytes(plain)


def encrypt_file(
    source: str | os.PathLike[str], target: str | os.PathLike[str], key: Key
) -> None:
    """Write the model `source` encrypted as `target`; errors as of `encrypt`."""
    sealed = encrypt(read(Path(source), where="encrypt_file"), key)
    replace_all([Replacement(os.fspath(target), [sealed])], where="encrypt_file")


def _chunks(view: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(view), _CHUNK):
        yield view[at : at + _CHUNK]


def _checked(key: object) -> Key:
    if isinstance(key, (bytes, bytearray)) and len(key) == KEY_BYTES:
        return bytes(key)
    size = len(key) if isinstance(key, (bytes, bytearray)) else type(key).__name__
    raise InvalidArgumentError(
        f"[encryption] key must be {KEY_BYTES} bytes, got {size}"
    )


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise UnavailableError(
            "[encryption] expected the package cryptography: pip install "
            "'proa-inference[encryption]', got none"
        ) from None
    return algorithms, modes, Cipher
