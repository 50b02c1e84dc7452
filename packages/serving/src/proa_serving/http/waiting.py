"""Answers of workers to requests that repeat one, without a task on the event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa_serving.http.answers import FastAnswer
from proa_serving.http.messages import Reply, Request
from proa_serving.models.waiting import WaitingRun
from proa_serving.protocol.errors import ServingError, UnavailableError
from proa_serving.protocol.messages import Array
from proa_serving.transport.owner import Owner

log = logging.getLogger("proa_serving.http")
# The parts of an answer, and what is called on the event loop with whether they were
# sent; from any thread.
Send = Callable[[Sequence[Any], Callable[[bool], None]], None]
# The request, and its answer unless that was sent.
Finish = Callable[[Request, Reply | None], None]


class WaitingAnswer:
    """A request that waits for a worker, which sends the answer itself.

    Args:
        owner: What the connections share.
        request: Repeats one that was answered.
        answer: What answers it.
        given: Its id.
        send: Sends the answer.
        finish: Ends the request, on the event loop.
    """

    __slots__ = (
        *("_answer", "_finish", "_given", "_owner"),
        *("_request", "_result", "_run", "_send"),
    )

    def __init__(
        self,
        owner: Owner[Any],
        request: Request,
        answer: FastAnswer,
        given: bytes,
        send: Send,
        finish: Finish,
    ) -> None:
        self._owner, self._request, self._answer = owner, request, answer
        self._given, self._send, self._finish = given, send, finish
        self._result: Mapping[str, Array] | ServingError
        self._run: WaitingRun | None = None

    def start(self, data: bytes | memoryview) -> bool:
        """Queue it; False if the request is to be answered as others are."""
        try:
            self._run = self._answer.run_later(data, self._answered)
        except ServingError as error:
            self._answered(error)
            return True
        return self._run is not None

    def cancel(self) -> None:
        """End it, unless it was answered; on the event loop."""
        if self._run is not None and self._run.cancel():
            self._run = None
            error = UnavailableError("server", "is shutting down; the request was cut")
            self._finish(self._request, Reply.of_error(error))

    def _answered(self, result: Mapping[str, Array] | ServingError) -> None:
        """From a worker, or the event loop."""
        self._result = result
        parts: Sequence[Any] = ()
        # The last answer of a connection says so; that, and errors, are written there.
        if not (isinstance(result, ServingError) or self._owner.draining):
            try:
                parts = self._answer.encode_outputs(result, self._given)
            except Exception:
                log.debug("an answer is encoded again", exc_info=True)
        self._send(parts, self._settle)

    def _settle(self, sent: bool) -> None:
        run, self._run = self._run, None  # which refers to this
        if run is not None:
            run.settle()
        reply = None
        if not sent:
            try:
                reply = self._answer.reply(self._result, self._given)
            except Exception as error:
                reply = Reply.of_failure(error)
        self._finish(self._request, reply)
