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
from proa_serving.http.messages import Head, Request
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

Paths = dict[bytes, tuple[int, FastAnswer]]
Find = Callable[[Request], tuple[bytes, FastAnswer] | None]
# Serves a request with a head: False if it must be parsed after all. Where its body
# begins in the buffer, and where what arrived ends.
Take = Callable[[Head, int, int], bool]


class HttpRepeats:
    """What was learned from one client.

    Args:
        repeats: Tells the transport.
        buffer: Where requests are received.
        find: Finds what answers requests like one, and its JSON.
        take: Serves requests that have no answer here.
        touch: Is called after each that the transport answered.
    """

    __slots__ = (
        *("_buffer", "_find", "_heads", "_in_vain", "_paths", "_repeats"),
        *("_take", "_touch"),
    )

    def __init__(
        self,
        repeats: Repeats,
        buffer: memoryview,
        find: Find,
        take: Take,
        touch: Callable[[], None],
    ) -> None:
        self._repeats, self._buffer = repeats, buffer
        self._find, self._take, self._touch = find, take, touch
        self._paths: dict[bytes, Paths] = {}  # by target
        self._heads: set[bytes] = set()  # that the transport knows
        self._in_vain = 0  # learned since one was repeated

    @classmethod
    def of(
        cls,
        transport: Any,
        owner: Owner[Answers],
        take: Take,
        touch: Callable[[], None],
    ) -> HttpRepeats | None:
        """For a connection of ``owner``, where ``transport`` can learn."""
        held = Repeats.of(transport)
        if held is None:
            return None
        return cls(held, owner.buffer, owner.answers.fast_path, take, touch)

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
        answer = None
        if not any(name in headers for name in _SPECIAL):
            if len(self._paths) >= _MAX_PATHS:
                self._paths.clear()
            paths = self._paths.setdefault(parsed.target, {})
            answer = functools.partial(self._answer, paths)
        take = functools.partial(self._take_parsed, head, parsed)
        self._repeats.learn_head(head, _READ, answer, take)

    def learn(self, request: Request) -> None:
        """A request was answered."""
        paths = self._paths.get(request.target)
        if paths is None or self._in_vain >= LEARNED_IN_VAIN:
            return
        self._in_vain += 1
        found = self._find(request)
        if found is None:
            return
        if len(paths) >= _MAX_PATHS:
            paths.clear()
        text, answer = found
        length = 0 if request.body is None else request.body.size
        paths[text] = (length - len(text), answer)

    def answer(self, request: Request) -> Sequence[Any] | None:
        """The parts that answer a request whose body is received; None if not known."""
        paths = self._paths.get(request.target)
        text = request.headers.get(_LENGTH, b"")
        if paths is None or not (text.isdigit() and len(text) < 5):
            return None
        if request.method != b"POST" or not request.keep_alive or request.refusal:
            return None
        if any(name in request.headers for name in _SPECIAL):
            return None
        data, size = memoryview(request.data()), int(text)
        return self._answer(paths, bytes(data[:size]), data[size:])

    def _answer(
        self, paths: Paths, text: bytes, data: bytes | memoryview
    ) -> Sequence[Any] | None:
        found, given = paths.get(text), b""
        if found is None:
            key, given = without_id(text)
            found = paths.get(key) if given else None
        if found is None or found[0] != len(data):
            return None
        parts = found[1](data, given)
        if parts is not None:
            self._in_vain = 0
            self._repeats.repeated()
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
        head = bytes(self._buffer[begin:body])
        headers = parsed.headers if head == learned else _headers_of(head)
        found = Head(parsed.method, parsed.target, headers, length, skip)
        return self._take(found, body, end)


def _headers_of(head: bytes) -> dict[bytes, bytes]:
    """The headers of a head that is known to be well-formed."""
    headers = {}
    for line in head[:-4].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip(b" \t")
    return headers
