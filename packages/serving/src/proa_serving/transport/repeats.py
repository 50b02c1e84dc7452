"""Requests that a client repeats, which the native transport answers by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# A client whose requests all differ is not worth it.
LEARNED_IN_VAIN = 16


class Repeats:
    """Tells the transport of one connection which requests it may answer, and how.

    A request is known by its bytes. They were parsed and answered before, so one that
    has the same, but for the numbers in its tensors, needs neither.

    Args:
        transport: The native one.
    """

    __slots__ = ("_in_vain", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._in_vain = 0  # learned since one was repeated

    @classmethod
    def of(cls, transport: Any) -> Repeats | None:
        """For ``transport``, if that can learn; asyncio's cannot."""
        return cls(transport) if hasattr(transport, "learn_head") else None

    @property
    def is_worth(self) -> bool:
        """Whether requests of this client were repeated so far."""
        return self._in_vain < LEARNED_IN_VAIN

    def learn(
        self,
        text: bytes,
        literals: tuple[tuple[int, int], ...],
        tail: int,
        streams: tuple[int, ...],
        answer: Callable[..., Sequence[Any] | None],
    ) -> None:
        """Let the transport answer what repeats a request that was answered.

        Args:
            text: All bytes of the request.
            literals: Where another one must have the same bytes: begins and ends.
            tail: Where the bytes begin that ``answer`` is given.
            streams: Where the number of its stream is, which ``answer`` is given too.
            answer: Returns the parts to send, or None where the protocol shall answer.
        """
        self._in_vain += 1
        self._transport.learn(text, literals, tail, streams, answer)

    def learn_head(
        self,
        head: bytes,
        names: tuple[bytes, ...],
        answer: Callable[[bytes, bytes], Sequence[Any] | None] | None,
        take: Callable[[int, int, int, int, int], bool],
        give: Callable[[bytes, int, int, Any, int, int], None],
    ) -> None:
        """Let the transport take requests of HTTP/1.1 with a head like this.

        Args:
            head: Head of a request that was accepted.
            names: Headers, in lower case, that must be the same.
            answer: Returns the parts that answer JSON and raw tensors, or None.
            take: What is called otherwise: where in the buffer the request begins, its
                body begins, and what arrived ends; the bytes of the body, and of its
                JSON. False if it is to be parsed.
            give: What is called with requests that :meth:`learn_text` lets the
                transport receive, and that cannot wait: the head, the bytes of the body
                and of its JSON, the body, the bytes of it that are there, and those
                that the budget was charged with.
        """
        self._in_vain += 1
        self._transport.learn_head(head, names, answer, take, give)

    def learn_text(self, text: bytes, length: int, lane: Any) -> None:
        """Let the transport receive requests of ``length`` bytes that begin so.

        Args:
            text: Their JSON.
            length: Bytes of their bodies.
            lane: Where they wait. They have the head of the known one that came last.
        """
        self._transport.learn_text(text, length, lane)

    def answer(self, parts: Sequence[Any], settle: Callable[[bool], None]) -> None:
        """Send the answer to the only request of the connection, from any thread.

        Args:
            parts: Buffers; they are not sent if they are many, or earlier ones wait.
            settle: Is called with whether they were, on the event loop, before the next
                request is received.
        """
        self._transport.answer(parts, settle)

    def repeated(self) -> None:
        """One was answered."""
        self._in_vain = 0

    def expect(self) -> None:
        """The next byte from the client begins a request."""
        self._transport.expect()

    def forget(self) -> None:
        """Answer none of them any more."""
        self._transport.forget()
