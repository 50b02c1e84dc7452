"""Reading and replacing whole files.

A file is replaced as the POSIX rename allows: its new bytes are written to a temporary
file in the same directory, synced and renamed over it, so that a crash, a kill or a
full disk at any time leaves the old file or the new one, whole. Every writer of the
package comes here. A file is read into memory of the process's own, never mapped, as
a mapped file that another program truncates ends the process that reads it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from proa.errors import (
    Error,
    FileError,
    InvalidArgumentError,
    MissingFileError,
    ResourceExhaustedError,
)

PathLike: TypeAlias = str | os.PathLike[str]
Chunks: TypeAlias = Iterable[bytes | bytearray | memoryview]

#: A temporary file is ``.NAME.RANDOM.proa.part``. Its writer holds a lock on it, which
#: the system drops when the process ends, however that happens.
_PART = re.compile(r"^\..*\.[0-9a-f]{16}\.proa\.part$")
_ALIGN = 64
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link that leads nowhere",
}


class Replacement(NamedTuple):
    """A file to be and its bytes."""

    path: PathLike
    chunks: Chunks


def replace(path: PathLike, chunks: Chunks, *, where: str = "save") -> None:
    """Write a file of these bytes in the place of an old one, all at once.

    A symbolic link stays, and its target is replaced. An existing file keeps its mode
    and, where the system allows it, its owner; a new one has those that ``open`` gives.
    Directories that are missing are created.

    Raises:
        InvalidArgumentError: If the path names something other than a regular file.
        FileError: If the system refuses: no space, no permission.
    """
    replace_all([Replacement(path, chunks)], where=where)


def replace_all(files: Sequence[Replacement], *, where: str = "save") -> None:
    """Write several files, of which none is replaced before all are on the disk.

    They are renamed in the given order: where the last has its new bytes, all have.

    Raises:
        As `replace` does.
    """
    with ExitStack() as stack:
        parts = [stack.enter_context(_written(file, where)) for file in files]
        for part, target in parts:
            with _typed(where, target):
                os.replace(part, target)
    for folder in {target.parent for _, target in parts}:
        _sync_directory(folder)
        _remove_abandoned(folder)


def finish_replacement(path: PathLike, accept: Callable[[Path], bool]) -> bool:
    """Rename into place the temporary file of a writer that ended before it did so.

    `replace_all` syncs every file before it renames the first, so where one file has
    been replaced, the temporary files of the others are whole.

    Args:
        path: The file to replace.
        accept: Whether a temporary file is the one that belongs there.

    Returns:
        Whether a file was renamed. False also if the directory is not writable.
    """
    target = Path(os.path.realpath(path))
    prefix = _part_prefix(target)
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix) or not _PART.match(entry.name):
                continue
            part = Path(entry.path)
            with _unlocked(part) as abandoned:
                if abandoned and accept(part):
                    os.replace(part, target)
                    _sync_directory(target.parent)
                    return True
    return False


def read(
    path: PathLike, *, where: str = "load", count: int | None = None
) -> memoryview:
    """The bytes of a regular file, or its first `count`, in memory of their own that is
    aligned to 64.

    Raises:
        MissingFileError: If there is no such file.
        InvalidArgumentError: If it is not a regular file, or changes meanwhile.
        FileError: If the system refuses.
        ResourceExhaustedError: If it does not fit into memory.
    """
    path = Path(path)
    with _typed(where, path):
        _check_regular(path.stat(), path, where)
        with path.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            _check_regular(before, path, where)
            size = before.st_size if count is None else min(count, before.st_size)
            data = _aligned(size, path, where)
            at = 0
            while at < size and (received := file.readinto(data[at:])):
                at += received
            after = os.fstat(file.fileno())
    if at != size or _version(before) != _version(after):
        raise InvalidArgumentError(
            f"[{where}] expected a file that stays as it is while it is read, got "
            f"{path}, which another program changed; write a new file to another name "
            "and rename it"
        )
    return data


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _aligned(size: int, path: Path, where: str) -> memoryview:
    try:
        memory = np.empty(size + _ALIGN, np.uint8)
    except (MemoryError, ValueError):
        raise ResourceExhaustedError(
            f"[{where}] expected a file that fits into memory, got {path} of {size} "
            "bytes"
        ) from None
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + size].data


@contextmanager
def _typed(where: str, path: Path) -> Iterator[None]:
    """Raise the system's errors as ours."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError:
        raise MissingFileError(f"[{where}] no such file: {path}") from None
    except OSError as error:
        raise FileError(
            error.errno or errno.EIO,
            f"[{where}] {path}: {error.strerror or error}",
            os.fspath(path),
        ) from error


def _check_regular(status: os.stat_result, path: Path, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "another kind of file")
        raise InvalidArgumentError(
            f"[{where}] expected the path of a regular file, got {path}, which is "
            f"{kind}"
        )


def _target(path: PathLike, where: str) -> tuple[Path, os.stat_result | None]:
    """The file that a path leads to, and its status if it exists."""
    given, target = Path(path), Path(os.path.realpath(path))
    try:
        status = given.stat()
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target, None
    _check_regular(status, given, where)
    if not os.path.samestat(status, target.lstat()):
        # An entry of /proc/self/fd whose file has no name any more.
        raise InvalidArgumentError(
            f"[{where}] expected the path of a file that has a name, got {given}"
        )
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target, status


@contextmanager
def _written(file: Replacement, where: str) -> Iterator[tuple[Path, Path]]:
    """A temporary file with the bytes, and the file that it is to replace."""
    path = Path(file.path)
    with _typed(where, path):
        target, status = _target(path, where)
        part, descriptor = _create(target, 0o666 if status is None else 0o600)
    try:
        with _typed(where, path), os.fdopen(descriptor, "wb") as stream:
            for chunk in file.chunks:
                stream.write(chunk)
            stream.flush()
            if status is not None:
                with suppress(OSError):  # only root gives files away
                    os.fchown(descriptor, status.st_uid, status.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            os.fsync(descriptor)
            # Open, and so locked, until it has its name.
            yield part, target
    finally:
        part.unlink(missing_ok=True)


def _part_prefix(target: Path) -> str:
    # A name has at most 255 bytes.
    return f".{target.name[:50]}."


def _create(target: Path, mode: int) -> tuple[Path, int]:
    """A new temporary file, locked."""
    while True:
        name = f"{_part_prefix(target)}{secrets.token_hex(8)}.proa.part"
        part = target.with_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(part, flags, mode)
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink > 0:
            return part, descriptor
        os.close(descriptor)  # another process saw it before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files whose writers have ended."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.match(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError), _unlocked(Path(path)) as abandoned:
        if abandoned:
            os.unlink(path)


@contextmanager
def _unlocked(part: Path) -> Iterator[bool]:
    """Lock a temporary file for the block; False if its writer still has it locked."""
    descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _sync_directory(folder: Path) -> None:
    """Bring the new names to the disk."""
    with suppress(OSError):  # some file systems cannot
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
