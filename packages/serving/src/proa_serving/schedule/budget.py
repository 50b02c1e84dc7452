"""Bounds the memory of all requests in flight together."""

from __future__ import annotations

from proa_serving.protocol.errors import QueueFullError


class ByteBudget:
    """Bytes that the requests of one server may hold; used on its event loop alone.

    A request takes bytes as they arrive, so that a length which is only promised
    keeps nobody else out, and releases them once it is answered.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_room(self, count: int) -> bool:
        """Whether ``count`` bytes more could be held."""
        return self.used + count <= self.limit

    def take(self, count: int) -> None:
        """Hold ``count`` bytes more.

        Raises:
            QueueFullError: If too many are held; none is taken then.
        """
        if self.used + count > self.limit:
            raise QueueFullError(
                "server",
                f"requests in flight may hold {self.limit} bytes; try again later",
            )
        self.used += count

    def release(self, count: int) -> None:
        """Hold ``count`` bytes less."""
        self.used -= count
