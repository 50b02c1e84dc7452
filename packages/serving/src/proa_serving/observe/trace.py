"""Follows single requests through the server.

A client's W3C Trace Context (the header or parameter ``traceparent``) is taken up, and
decides by its flag whether a request is traced; other requests are drawn by chance.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proa_serving.protocol.answers import Answer, Answers
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import InferRequest, InferResponse

_TRACEPARENT = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2}).*"
)


@dataclass(frozen=True)
class TraceParent:
    """The caller's place in a trace (W3C Trace Context, level 1)."""

    trace_id: str
    span_id: str
    sampled: bool

    @classmethod
    def parse(cls, text: str) -> TraceParent | None:
        """From the header; None where it is not well formed, as the standard says."""
        match = _TRACEPARENT.fullmatch(text)
        if match is None:
            return None
        version, trace_id, span_id, flags = match.groups()
        bare = len(text) == 55
        if version == "ff" or (version == "00" and not bare):
            return None
        if not bare and text[55] != "-":
            return None
        if trace_id == "0" * 32 or span_id == "0" * 16:
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & 1))


@dataclass
class Trace:
    """One request that was followed. Times are of ``time.monotonic``.

    ``wall`` is the Unix time at ``began``; ``status`` is "ok" or an error's reason;
    ``client`` is the name of its API key, or else its address; ``stages`` have a name,
    a begin and an end.
    """

    protocol: str
    model: str
    began: float
    wall: float
    id: str = ""
    version: str = ""
    status: str = "ok"
    error: str = ""
    ended: float = 0.0
    sampled: bool = True
    parent: TraceParent | None = None
    client: str = ""
    stages: list[tuple[str, float, float]] = field(default_factory=list)

    def wall_ns(self, at: float) -> int:
        """Unix time in nanoseconds of a time of the trace."""
        return round((self.wall + at - self.began) * 1e9)


class Sink(Protocol):
    """Takes traces that ended; must not block.

    ``wants_all`` also takes those that were not sampled.
    """

    wants_all: bool

    def take(self, trace: Trace) -> None: ...

    def close(self) -> None:
        """Write what is left; may block."""
        ...


class Tracer:
    """Follows requests and gives what it saw to ``sinks``.

    Args:
        share: The share of requests without a traceparent that is sampled.
        sinks: Where traces go.
    """

    def __init__(self, share: float, sinks: Sequence[Sink]) -> None:
        self.share, self._sinks = share, sinks
        self._all = any(sink.wants_all for sink in sinks)

    def infer(self, model: Answers, request: InferRequest, protocol: str) -> Answer:
        """Let ``model`` answer ``request``, and follow it if it is to be."""
        text = request.hint("traceparent")
        parent = TraceParent.parse(text) if text else None
        if parent is not None:
            sampled = parent.sampled
        else:
            sampled = random.random() < self.share
        if not sampled and not self._all:
            return model.infer(request, protocol)
        now = time.monotonic()
        began = request.arrived or now
        trace = Trace(
            protocol,
            request.model,
            began,
            time.time() - (now - began),
            id=request.id,
            sampled=sampled,
            parent=parent,
            client=request.client,
        )
        if request.arrived:
            trace.stages.append(("decode", began, now))
        request.watch = lambda name, begin, end: trace.stages.append((name, begin, end))
        try:
            answer = model.infer(request, protocol)
        except ServingError as error:
            self._end(trace, error=error)
            raise
        if not isinstance(answer, InferResponse):
            return self._follow(trace, answer)
        self._end(trace, answer)
        return answer

    async def _follow(
        self, trace: Trace, answer: Coroutine[Any, Any, InferResponse]
    ) -> InferResponse:
        try:
            response = await answer
        except ServingError as error:
            self._end(trace, error=error)
            raise
        except asyncio.CancelledError:
            trace.status = "cancelled"
            self._end(trace)
            raise
        self._end(trace, response)
        return response

    def _end(
        self,
        trace: Trace,
        response: InferResponse | None = None,
        error: ServingError | None = None,
    ) -> None:
        trace.ended = time.monotonic()
        if response is not None:
            trace.version = response.version
            if trace.stages:
                last = max(end for _, _, end in trace.stages)
                trace.stages.append(("answer", last, trace.ended))
        if error is not None:
            trace.status, trace.error = error.reason, str(error)[:500]
        self._give(trace)

    def refused(
        self, protocol: str, reason: str, message: str, model: str, client: str
    ) -> None:
        """Give a request that reached no model to the sinks that want all of them."""
        now = time.monotonic()
        trace = Trace(protocol, model, now, time.time(), sampled=False, client=client)
        trace.status, trace.error, trace.ended = reason, message[:500], now
        self._give(trace)

    def _give(self, trace: Trace) -> None:
        for sink in self._sinks:
            if trace.sampled or sink.wants_all:
                sink.take(trace)

    def close(self) -> None:
        """Write what is left."""
        for sink in self._sinks:
            sink.close()
