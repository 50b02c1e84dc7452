"""Batches between processes: arrays through shared memory, the rest pickled.

A worker writes the arrays of a batch into one memory file that has no name (memfd),
whose descriptor goes to the reader once over the Unix socket. Nothing has to be cleaned
up: the memory is freed when both processes have closed it, however they end. The reader
copies a batch out and hands the memory back, so that two or three files serve an epoch.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np

#: Arrays begin at multiples of this.
_ALIGN = 64
#: Batches smaller than this go through the socket.
_SMALL = 16 * 1024


def can_share() -> bool:
    """Whether this system has nameless memory files."""
    return hasattr(os, "memfd_create")


class _Memory:
    """A mapped memory file."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self.map = mmap.mmap(descriptor, size)
        self.bytes = np.frombuffer(self.map, np.uint8)


class Writer:
    """The worker's end."""

    def __init__(self, connection: Connection, share: bool) -> None:
        self._connection = connection
        self._share = share and can_share()
        self._memories: dict[int, _Memory] = {}
        self._free: list[int] = []
        self._next = 0

    def release(self, slot: int) -> None:
        """The reader is done with a memory."""
        self._free.append(slot)

    def send(self, kind: str, number: int, value: Any) -> None:
        """Send a batch (or another message) under a number."""
        buffers: list[pickle.PickleBuffer] = []
        collect: Callable[[pickle.PickleBuffer], Any] | None = None
        if self._share:
            collect = buffers.append
        data = pickle.dumps(value, protocol=5, buffer_callback=collect)
        views = [b.raw() for b in buffers]
        total = sum(-(-v.nbytes // _ALIGN) * _ALIGN for v in views)
        if total < _SMALL:
            data = pickle.dumps(value, protocol=5)
            self._connection.send((kind, number, data, None, [], 0))
            return
        slot, memory, fresh = self._memory(total)
        layout, at = [], 0
        for view in views:
            memory.bytes[at : at + view.nbytes] = np.frombuffer(view, np.uint8)
            layout.append((at, view.nbytes))
            at += -(-view.nbytes // _ALIGN) * _ALIGN
        self._connection.send(
            (kind, number, data, slot, layout, memory.size if fresh is not None else 0)
        )
        if fresh is not None:
            send_handle(self._connection, fresh, None)
            os.close(fresh)

    def _memory(self, size: int) -> tuple[int, _Memory, int | None]:
        """A free memory of at least ``size`` bytes; a new one brings its descriptor."""
        for i, slot in enumerate(self._free):
            if self._memories[slot].size >= size:
                return self._free.pop(i), self._memories[slot], None
        slot = self._free.pop() if self._free else self._next
        self._next = max(self._next, slot + 1)
        page = mmap.PAGESIZE
        size = -(-size * 5 // 4 // page) * page  # room for a batch that is a bit longer
        descriptor = os.memfd_create("proa-batch", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        self._memories[slot] = _Memory(descriptor, size)
        return slot, self._memories[slot], descriptor


class Reader:
    """The main process's end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._memories: dict[int, _Memory] = {}

    def receive(self) -> tuple[str, int, Any, int | None]:
        """A message: its kind, number, value, and the memory to hand back, if any."""
        kind, number, data, slot, layout, fresh = self._connection.recv()
        if slot is None:
            return kind, number, pickle.loads(data), None
        if fresh:
            descriptor = recv_handle(self._connection)
            self._memories[slot] = _Memory(descriptor, fresh)
            os.close(descriptor)
        source = self._memories[slot].bytes
        copies = [bytearray(source[a : a + n]) for a, n in layout]
        return kind, number, pickle.loads(data, buffers=copies), slot
