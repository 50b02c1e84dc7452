"""What a connection waits for, which says how long it may."""

from __future__ import annotations

import select
import socket

NEW = "new"  # the first byte
IDLE = "idle"  # the next request
HEAD = "head"
BODY = "body"
BUSY = "busy"  # the answer
BLOCKED = "blocked"  # the client, to read
LINGER = "linger"  # the client, to close


def has_unread(held: socket.socket | None) -> bool:
    """Whether the client has sent what was not read yet, as the loop was busy.

    Closing would reset the connection, and the client not know if it was served.

    Args:
        held: The connection's socket, or None before there is one.
    """
    if held is None or held.fileno() < 0:
        return False
    waits = select.poll()
    waits.register(held, select.POLLIN)
    return bool(waits.poll(0))
