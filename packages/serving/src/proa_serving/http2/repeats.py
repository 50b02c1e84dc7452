"""Calls that a client repeats: which bytes of their frames are always the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proa_serving.http2 import frames
from proa_serving.http2.call_heads import CallHeads
from proa_serving.http2.calls import CallHead, Status
from proa_serving.http2.dispatch import Parts
from proa_serving.http2.stream import PREFIX_BYTES
from proa_serving.protocol.rpc_bytes import raw_ranges
from proa_serving.transport.repeats import Repeats

Answer = Callable[[bytes], Parts | None]

_STREAM_AT = 5  # of a frame
# Calls beyond this come in more than one read, or frame.
_MAX_BYTES = 2**16


class CallBytes(NamedTuple):
    """A call as it came: a HEADERS and a DATA frame, and nothing else.

    Args:
        text: Both.
        stream: Their number.
        block: The header block.
        message: Where the message begins.
    """

    text: bytes
    stream: int
    block: bytes
    message: int

    @classmethod
    def of(cls, data: memoryview) -> CallBytes | None:
        """The call that ``data`` is, if it is one of such."""
        if not 2 * frames.HEAD_BYTES + PREFIX_BYTES < len(data) <= _MAX_BYTES:
            return None
        length, kind, flags, stream = frames.parse_head(data, 0)
        end = frames.HEAD_BYTES + length
        message = end + frames.HEAD_BYTES + PREFIX_BYTES
        if kind != frames.HEADERS or flags != frames.END_HEADERS or message > len(data):
            return None
        length, *rest = frames.parse_head(data, end)
        if rest != [frames.DATA, frames.END_STREAM, stream]:
            return None
        if message - PREFIX_BYTES + length != len(data) or data[message - PREFIX_BYTES]:
            return None
        block = bytes(data[frames.HEAD_BYTES : end])
        return cls(bytes(data), stream, block, message)

    def literals(self) -> tuple[tuple[int, int], ...] | None:
        """What repeats where only the stream and the raw tensors change.

        Returns:
            Begins and ends; the last ends where the first tensor begins, but for those
            between tensors. None if it has no raw tensors.
        """
        found = raw_ranges(memoryview(self.text)[self.message :])
        if not found:
            return None
        second = frames.HEAD_BYTES + len(self.block)
        ranges = [(0, _STREAM_AT), (frames.HEAD_BYTES, second + _STREAM_AT)]
        at = second + frames.HEAD_BYTES
        for begin, end in found:
            ranges.append((at, self.message + begin))
            at = self.message + end
        return tuple(ranges)

    @property
    def streams(self) -> tuple[int, int]:
        """Where the number of the stream is."""
        second = frames.HEAD_BYTES + len(self.block)
        return _STREAM_AT, second + _STREAM_AT


class KnownCall(NamedTuple):
    """What a repeated call has in common with the first.

    Args:
        head: What its headers say.
        changes: Those of the dynamic table, without which its block means the same.
        length: Bytes of its DATA.
    """

    head: CallHead
    changes: int
    length: int

    @staticmethod
    def call(answer: Answer, data: bytes) -> tuple[Parts | None, Status | None]:
        """The message that answers, or how it failed; neither the long way."""
        try:
            return answer(data), None
        except Status as status:
            return None, status


def learn_call(
    repeats: Repeats,
    data: memoryview,
    heads: CallHeads,
    find: Callable[[CallHead, memoryview], Answer | None],
    repeat: Callable[[KnownCall, Answer, bytes, int], Parts | None],
) -> None:
    """Let the transport answer calls that repeat one, if ``data`` was that.

    Args:
        repeats: Repeats of the connection.
        data: What was received and, whatever it was, answered.
        heads: The connection's.
        find: Finds what gives the message that answers raw tensors.
        repeat: Gives the frames of an answer, for what is known, what was found, the
            raw tensors and the stream.
    """
    call = CallBytes.of(data) if repeats.is_worth else None
    if call is None:
        return
    head, literals = heads.known(call.block), call.literals()
    if head is None or literals is None or head.timeout == 0:
        return
    message = memoryview(call.text)[call.message :]
    answer = find(head, message)
    if answer is None:
        return
    known = KnownCall(head, heads.changes, len(message) + PREFIX_BYTES)

    def repeated(data: bytes, number: int) -> Parts | None:
        parts = repeat(known, answer, data, number)
        if parts is not None:
            repeats.repeated()
        return parts

    tail = literals[2][1]  # where the first tensor begins
    repeats.learn(call.text, literals, tail, call.streams, repeated)
