"""What a connection waits for, which says how long it may."""

from __future__ import annotations

import select
from typing import Any

NEW = "new"  # the first byte
IDLE = "idle"  # the next request
HEAD = "head"
BODY = "body"
BUSY = "busy"  # the answer
BLOCKED = "blocked"  # the client, to read
LINGER = "linger"  # the client, to close


def has_unread(transport: Any) -> bool:
    """Whether the client has sent what was not read yet, as the loop was busy.

    Closing would reset the connection, and the client not know if it was served.

    Args:
        transport: The connection's ``asyncio.Transport``, or None before there is one.
    """
    if transport is None:
        return False
    waits = select.poll()
    waits.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(waits.poll(0))
