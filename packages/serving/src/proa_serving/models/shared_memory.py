"""System shared memory: tensors that clients on this machine pass without a socket.

A region is copied by ``pread`` and ``pwrite``, and never mapped: its client may shrink
the file at any time, which would kill a process that had it mapped by SIGBUS, and may
change its bytes while a model runs. The copy costs a tenth of what a socket does.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path

from proa_serving.protocol.errors import InvalidRequestError, NotFoundError
from proa_serving.protocol.messages import RegionSlice, SharedInput, Tensor
from proa_serving.protocol.tensors import (
    Buffer,
    aligned_memory,
    raw_from_tensor,
    tensor_from_raw,
)

_FOLDER = Path("/dev/shm")  # where Linux keeps what shm_open makes
# One component of a path that is not hidden: "." and ".." are none, nor is a slash.
_KEY = re.compile(r"/?([A-Za-z0-9_][A-Za-z0-9_.+=@:-]{0,254})")
_MAX_NAME = 256
MAX_REGIONS = 256  # each has a file descriptor


@dataclass(slots=True, eq=False)
class Region:
    """A registered part of a shared memory object."""

    name: str
    key: str
    offset: int
    byte_size: int
    file: int  # its descriptor; -1 once closed
    using: threading.Lock = field(default_factory=threading.Lock)


class SharedMemory:
    """The regions that clients registered. Safe to use from any thread.

    Args:
        folder: Where keys are looked up; nothing outside of it is opened.
    """

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._regions: dict[str, Region] = {}
        self._changing = threading.Lock()

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Let requests use ``byte_size`` bytes of ``key`` from ``offset`` on.

        Raises:
            InvalidRequestError: If the name is in use, too many are, the key is not
                that of a shared memory object, or the bytes are not all within it.
        """
        where = f"region {name!r:.80}"
        if not 0 < len(name) <= _MAX_NAME:
            raise InvalidRequestError(where, f"must have a name of 1 to {_MAX_NAME}")
        file = self._open(key, where)
        try:
            size = os.fstat(file).st_size
            if offset < 0 or byte_size < 1 or offset + byte_size > size:
                raise InvalidRequestError(
                    where,
                    f"must be within the {size} bytes of {key!r:.80}, got {byte_size} "
                    f"from {offset}",
                )
            with self._changing:
                if name in self._regions:
                    raise InvalidRequestError(where, "must not be registered twice")
                if len(self._regions) >= MAX_REGIONS:
                    raise InvalidRequestError(
                        where, f"at most {MAX_REGIONS} regions may be registered"
                    )
                self._regions[name] = Region(name, key, offset, byte_size, file)
        except BaseException:
            os.close(file)
            raise

    def _open(self, key: str, where: str) -> int:
        parts = _KEY.fullmatch(key)
        if parts is None:
            raise InvalidRequestError(
                where, f"key must be /NAME, as shm_open has it, got {key!r:.80}"
            )
        # A FIFO must not block, nor a link lead elsewhere.
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(self._folder / parts[1], flags)
        except OSError as error:
            raise InvalidRequestError(
                where, f"cannot open {key!r:.80}: {error.strerror}"
            ) from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise InvalidRequestError(where, f"{key!r:.80} is no shared memory")
        return file

    def unregister(self, name: str = "") -> None:
        """Forget region ``name``, or all of them; one that is not known is none."""
        with self._changing:
            names = [name] if name else list(self._regions)
            held = [self._regions.pop(each, None) for each in names]
        for region in held:
            if region is not None:
                with region.using:
                    os.close(region.file)
                    region.file = -1

    def status(self, name: str = "") -> list[Region]:
        """Region ``name``, or all of them.

        Raises:
            NotFoundError: If there is no such region.
        """
        return [self._find(name)] if name else list(self._regions.values())

    def _find(self, name: str) -> Region:
        region = self._regions.get(name)
        if region is None:
            raise NotFoundError(
                f"region {name!r:.80}", "expected a region that is registered"
            )
        return region

    def read(self, inputs: list[SharedInput]) -> list[Tensor]:
        """Copies of ``inputs``.

        Raises:
            NotFoundError: If a region is not registered.
            InvalidRequestError: If bytes are not within it, or no such tensor.
        """
        return [
            tensor_from_raw(each.name, each.datatype, each.shape, self._read(each))
            for each in inputs
        ]

    def _read(self, wanted: SharedInput) -> memoryview:
        slice_, where = wanted.slice, f"input {wanted.name!r:.80}"
        region = self._find(slice_.region)
        start = _start(region, slice_, where)
        data = aligned_memory(slice_.byte_size)
        done = 0
        with region.using:
            _check_open(region)
            while done < len(data):
                count = os.preadv(region.file, [data[done:]], start + done)
                if not count:
                    raise InvalidRequestError(where, "its shared memory was shortened")
                done += count
        return data

    def write(self, tensor: Tensor, target: RegionSlice) -> Tensor:
        """Put an output in a region; the tensor that says where.

        Raises:
            NotFoundError: If the region is not registered.
            InvalidRequestError: If the tensor does not fit.
        """
        where = f"output {tensor.name!r:.80}"
        region = self._find(target.region)
        start = _start(region, target, where)
        data: Buffer = raw_from_tensor(tensor)
        if len(data) > target.byte_size:
            raise InvalidRequestError(
                where,
                f"shared memory must be {len(data)} bytes, got {target.byte_size}",
            )
        view, done = memoryview(data), 0
        with region.using:
            _check_open(region)
            # Writing beyond its end would make it longer.
            if os.fstat(region.file).st_size < start + len(data):
                raise InvalidRequestError(where, "its shared memory was shortened")
            try:
                while done < len(view):
                    done += os.pwrite(region.file, view[done:], start + done)
            except OSError as error:
                raise InvalidRequestError(
                    where, f"its shared memory cannot be written: {error.strerror}"
                ) from error
        found = RegionSlice(target.region, target.offset, len(data))
        return Tensor(tensor.name, tensor.datatype, tensor.array, found)


def _start(region: Region, wanted: RegionSlice, where: str) -> int:
    """Where in its file ``wanted`` begins."""
    if wanted.offset + wanted.byte_size > region.byte_size:
        raise InvalidRequestError(
            where,
            f"must be within the {region.byte_size} bytes of region {region.name!r}, "
            f"got {wanted.byte_size} from {wanted.offset}",
        )
    return region.offset + wanted.offset


def _check_open(region: Region) -> None:
    if region.file < 0:
        raise NotFoundError(f"region {region.name!r:.80}", "was just unregistered")
