"""Answers that a client has not read."""

from __future__ import annotations

import fcntl
import struct
import sys
import termios
from typing import Any

from proa_serving.schedule.budget import ByteBudget


def unread_bytes(transport: Any) -> int:
    """Bytes that the client has not acknowledged: ours, and where known the kernel's.

    The kernel takes megabytes at one time, so a slow reader's progress shows there
    first.

    Args:
        transport: The connection's ``asyncio.Transport``.
    """
    left: int = transport.get_write_buffer_size()
    held = transport.get_extra_info("socket")
    if sys.platform != "linux" or held is None:
        return left
    try:
        answer = fcntl.ioctl(held.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # It was closed.
        return left
    return left + int(struct.unpack("i", answer)[0])


class Unread:
    """What one connection holds of the budget for them, and whether they get fewer.

    Args:
        budget: Is charged whether it has room or not, as the answers are there.
    """

    __slots__ = ("_budget", "_charged", "_left")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._charged = 0
        self._left = 0  # when last looked at

    def charge(self, size: int, left: int) -> None:
        """An answer of ``size`` bytes waits, and makes it ``left`` bytes in all."""
        self._budget.used += size
        self._charged += size
        self._left = left

    def release(self) -> None:
        """The client reads again, or is gone."""
        self._budget.release(self._charged)
        self._charged = 0

    def shrinks_to(self, left: int) -> bool:
        """Whether the client read some since the last call."""
        shrinks, self._left = left < self._left, min(left, self._left)
        return shrinks
