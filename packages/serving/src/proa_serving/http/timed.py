"""How long a client may take, and how its connection ends."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from proa_serving.http.answers import Answers
from proa_serving.http.arrivals import HttpArrival
from proa_serving.http.messages import Reply
from proa_serving.http.repeats import HttpRepeats
from proa_serving.http.waiting import WaitingAnswer
from proa_serving.protocol.errors import ServingError, SlowRequestError
from proa_serving.transport.owner import Owner
from proa_serving.transport.phases import (
    BLOCKED,
    BODY,
    HEAD,
    IDLE,
    LINGER,
    NEW,
    has_unread,
)
from proa_serving.transport.unread import Unread, unread_bytes


class TimedConnection(asyncio.BufferedProtocol):
    """What a listener does with a connection.

    The native transport sets ``phase``, ``deadline`` and ``running``, what the client
    waits for, as it serves requests by itself.

    Args:
        owner: What the connections share.
        loop: The event loop.
        health_only: Answer health checks and nothing else, once.
    """

    __slots__ = (
        *("_blocked", "_loop", "_owner", "_repeats", "_transport", "_unread"),
        *("deadline", "health_only", "phase", "running", "sock"),
    )

    def __init__(
        self, owner: Owner[Answers], loop: asyncio.AbstractEventLoop, health_only: bool
    ) -> None:
        self._owner, self._loop = owner, loop
        self.health_only = health_only
        self.sock: socket.socket | None = None
        self._transport: Any = None  # a Transport once connected
        self.running: asyncio.Task[Reply] | WaitingAnswer | HttpArrival | None = None
        self._unread = Unread(owner.budget)
        self._blocked = False  # writing
        self._repeats: HttpRepeats | None = None  # where the transport answers them
        self._enter(NEW)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self.deadline = 0.0  # is set at the end of this iteration of the loop

    def _set_deadline(self) -> None:
        if not self.deadline:
            self.deadline = self._loop.time() + self._owner.seconds[self.phase]

    def expire(self) -> None:
        """The client was too slow."""
        phase, limit = self.phase, self._owner.seconds[self.phase]
        if phase in (NEW, IDLE):
            if has_unread(self.sock):
                self._enter(phase)
                self._set_deadline()
            else:
                self.close()
        elif phase in (HEAD, BODY):
            text = f"{phase} must arrive within {limit:g} s"
            self._fail(SlowRequestError("request", text))
            self._set_deadline()
        elif not self._reads():
            self.abort()

    def _reads(self) -> bool:
        """Whether the client has read of its answer; it has as long again then."""
        left = unread_bytes(self._transport)
        reads = self._blocked and self._unread.shrinks_to(left)
        if reads:
            self.deadline = self._loop.time() + self._owner.seconds[BLOCKED]
        return reads

    def close(self, how: str = "close") -> None:
        """Close a connection that has nothing to answer."""
        self._owner.forget(self)
        if self._transport is None:
            self.phase = LINGER
        else:
            getattr(self._transport, how)()

    def abort(self) -> None:
        """Close at once, whatever is in progress."""
        self.close("abort")

    def drain(self) -> None:
        """The server stops; the next answer says that it is the last."""
        if self._repeats is not None:
            self._repeats.forget()
            self._repeats = None

    def cut(self) -> None:
        """End the request in progress; it is answered that it was cut."""
        if self.running is not None:
            self.running.cancel()

    def _fail(self, error: ServingError) -> None:
        """Answer a request of which the rest is not read, and close."""
        raise NotImplementedError
