"""What the native transport may do with the requests of one HTTP connection.

It recognises heads that mean what one meant that was parsed, and calls what is here:
with JSON and raw tensors, which are answered at once where the JSON is known, or with
the places of a request, which is then served as any other, without being parsed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from proa_serving.http.answers import Answers, FastAnswer
from proa_serving.http.heads import UNUSUAL
from proa_serving.http.messages import Head, KnownTarget, Request
from proa_serving.http.waiting import Finish, WaitingAnswer
from proa_serving.protocol.rest import HEADER_LENGTH, without_id
from proa_serving.transport.owner import Owner
from proa_serving.transport.repeats import LEARNED_IN_VAIN, Repeats

_LENGTH = HEADER_LENGTH.lower().encode()
# A line of these must be as it was; whatever else the server reads of a head is given
# to it with each request.
_READ = (
    *(b"authorization", b"connection", b"content-encoding", b"expect", b"host"),
    *(b"origin", b"proxy-connection", b"transfer-encoding", b"upgrade", b"x-api-key"),
)
# Requests with these are never answered by what is known of others.
_SPECIAL = (b"authorization", b"content-encoding", b"origin", b"x-api-key")
_MAX_PATHS = 64
_MAX_HEADS = 8  # as the transport's

# Serves a request with a head: False if it must be parsed after all. Where its body
# begins in the buffer, and where what arrived ends.
Take = Callable[[Head, int, int], bool]
# Serves a request that was received as far as its body, of which so many bytes are
# there, and so many charged.
Give = Callable[[Head, Any, int, int], None]


class HttpRepeats:
    """What was learned from one client.

    Args:
        repeats: Tells the transport.
        owner: What the connections share.
        take: Serves requests that have no answer here.
        give: Serves requests that the transport received, and no worker takes.
        touch: Is called after each that the transport answered.
    """

    __slots__ = (
        *("_give", "_heads", "_in_vain", "_owner", "_paths", "_repeats"),
        *("_take", "_touch"),
    )

    def __init__(
        self,
        repeats: Repeats,
        owner: Owner[Answers],
        take: Take,
        give: Give,
        touch: Callable[[], None],
    ) -> None:
        self._repeats, self._owner = repeats, owner
        self._take, self._give, self._touch = take, give, touch
        self._paths: dict[bytes, KnownTarget] = {}  # by target
        self._heads: set[bytes] = set()  # that the transport knows
        self._in_vain = 0  # learned since one was repeated

    @classmethod
    def of(
        cls,
        transport: Any,
        owner: Owner[Answers],
        take: Take,
        give: Give,
        touch: Callable[[], None],
    ) -> HttpRepeats | None:
        """For a connection of ``owner``, where ``transport`` can learn."""
        held = Repeats.of(transport)
        if held is None:
            return None
        return cls(held, owner, take, give, touch)

    def expect(self) -> None:
        """The next byte from the client begins a request."""
        self._repeats.expect()

    def forget(self) -> None:
        """Parse all that follows."""
        self._repeats.forget()

    def learn_head(self, head: bytes, parsed: Head) -> None:
        """A head was parsed and accepted."""
        headers = parsed.headers
        if parsed.length is None or parsed.method != b"POST" or head in self._heads:
            return
        if not self._repeats.is_worth or any(name in headers for name in UNUSUAL):
            return
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        self._heads.add(head)
        answer = paths = None
        if not any(name in headers for name in _SPECIAL):
            if len(self._paths) >= _MAX_PATHS:
                self._paths.clear()
            paths = self._paths.setdefault(parsed.target, {})
            answer = functools.partial(self._answer, paths)
        parsed = parsed._replace(known=paths)
        take = functools.partial(self._take_parsed, head, parsed)
        give = functools.partial(self._give_parsed, head, parsed)
        self._repeats.learn_head(head, _READ, answer, take, give)

    def learn(self, request: Request) -> None:
        """A request was answered."""
        paths = self._paths.get(request.target)
        if paths is None or self._in_vain >= LEARNED_IN_VAIN:
            return
        self._in_vain += 1
        found = self._owner.answers.fast_path(request)
        if found is None:
            return
        length = 0 if request.body is None else request.body.size
        self._remember(paths, *found, length)

    @staticmethod
    def _remember(
        paths: KnownTarget, text: bytes, answer: FastAnswer, length: int
    ) -> None:
        if len(paths) >= _MAX_PATHS:
            paths.clear()
        paths[text] = (length - len(text), answer)

    def begin(
        self, request: Request, finish: Finish
    ) -> Sequence[Any] | WaitingAnswer | None:
        """The parts that answer a request which was received, or what will answer it.

        Args:
            request: The request.
            finish: Is called once the latter has.

        Returns:
            None if it is to be answered as others are.
        """
        body = request.body
        if body is None or not body.header_length or request.refusal:
            return None
        paths = request.known
        if paths is None:
            paths = self._paths.get(request.target)
            if paths is None or not request.keep_alive or request.method != b"POST":
                return None
            if any(name in request.headers for name in _SPECIAL):
                return None
        whole, size = memoryview(request.data()), body.header_length
        text = bytes(whole[:size])
        answer, given = self._find_path(paths, text, len(whole) - size)
        if answer is None:
            # Another client may have sent its like.
            found = self._owner.answers.known_path(request)
            if found is None:
                return None
            self._remember(paths, *found, len(whole))
            answer, given = self._find_path(paths, text, len(whole) - size)
            if answer is None:
                return None
        data = whole[size:] if body.in_place else bytes(whole[size:])  # aligned
        parts = answer(data, given) if answer.is_quick() else None
        if parts is not None:
            self._repeated()
            return parts
        send = self._repeats.answer
        waiting = WaitingAnswer(self._owner, request, answer, given, send, finish)
        if not waiting.start(data):
            return None
        self._repeated()
        if request.known is not None and not given:
            # Those that follow are received by the transport alone.
            self._repeats.learn_text(text, len(whole), answer.lane(self._owner))
        return waiting

    def _repeated(self) -> None:
        self._in_vain = 0
        self._repeats.repeated()

    def _find_path(
        self, paths: KnownTarget, text: bytes, size: int
    ) -> tuple[FastAnswer | None, bytes]:
        """What answers ``text`` and ``size`` bytes of raw tensors, and the id in it."""
        found, given = paths.get(text), b""
        if found is None:
            key, given = without_id(text)
            found = paths.get(key) if given else None
        if found is None or found[0] != size:
            return None, b""
        return found[1], given

    def _answer(
        self, paths: KnownTarget, text: bytes, data: bytes | memoryview
    ) -> Sequence[Any] | None:
        answer, given = self._find_path(paths, text, len(data))
        parts = None if answer is None else answer(data, given)
        if parts is not None:
            self._repeated()
            self._touch()
        return parts

    def _take_parsed(
        self,
        learned: bytes,
        parsed: Head,
        begin: int,
        body: int,
        end: int,
        length: int,
        skip: int,
    ) -> bool:
        """Serve the request at ``begin``, whose head differs in no way that matters."""
        self._repeats.repeated()
        head = bytes(self._owner.buffer[begin:body])
        return self._take(_like(learned, parsed, head, length, skip), body, end)

    def _give_parsed(
        self,
        learned: bytes,
        parsed: Head,
        head: bytes,
        length: int,
        skip: int,
        memory: Any,
        size: int,
        charged: int,
    ) -> None:
        """Serve a request of which ``size`` bytes of the body are in ``memory``."""
        found = _like(learned, parsed, head, length, skip)
        self._give(found, memory, size, charged)


def _like(learned: bytes, parsed: Head, head: bytes, length: int, skip: int) -> Head:
    """``head``, which differs from ``learned`` in no way that matters."""
    if head == learned:
        return parsed
    return parsed._replace(headers=_headers_of(head), length=length, skip=skip)


def _headers_of(head: bytes) -> dict[bytes, bytes]:
    """The headers of a head that is known to be well-formed."""
    headers = {}
    for line in head[:-4].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip(b" \t")
    return headers
