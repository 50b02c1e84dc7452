"""Requests that the native transport receives by itself, for a model's workers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from proa_serving.http.messages import Reply, Request
from proa_serving.protocol.errors import (
    RequestTimeoutError,
    ServingError,
    UnavailableError,
)
from proa_serving.protocol.messages import Array
from proa_serving.schedule.job import Job, Timing

if TYPE_CHECKING:
    from proa_serving._native import Arrival, Lane
    from proa_serving.http.answers import Answers
    from proa_serving.http.connection import HttpConnection
    from proa_serving.http.fast_path import HttpFastPath
    from proa_serving.transport.owner import Owner
else:
    try:
        from proa_serving._native import Arrival, Lane
    except ImportError:  # Nothing arrives.
        Arrival = Lane = object

log = logging.getLogger("proa_serving.http")


class HttpLane(Lane):
    """Where requests go that repeat one: to the queue of its model.

    Args:
        owner: What the connections share.
        answer: What answers them.
    """

    __slots__ = ("answer", "owner")

    owner: Owner[Answers]
    answer: HttpFastPath

    def __new__(cls, owner: Owner[Answers], answer: HttpFastPath) -> HttpLane:
        path = answer.path
        gate = path.model.scheduler.gate
        self = super().__new__(
            cls, gate, HttpArrival, path.deadlines, path.bounds.seconds
        )
        self.owner, self.answer = owner, answer
        return self

    def __init__(self, owner: Owner[Answers], answer: HttpFastPath) -> None:
        """All is done above, as the native type wants it."""


class HttpArrival(Arrival):
    """One request; it is what :class:`WaitingAnswer` is for those that Python takes.

    It has no initializer, as the transport makes it.
    """

    __slots__ = ("_job", "_result")

    lane: HttpLane
    _job: Job
    _result: Mapping[str, Array] | ServingError

    def job(self) -> Job | None:
        """What a worker runs; None if the model was replaced, or it is cancelled."""
        if (data := self.take()) is None:
            return None
        lane = self.lane
        path = lane.answer.path
        if not path.is_open():
            lane.open = False
            if self.decide():
                self.answer(())  # It is then given to its connection.
            return None
        path.model.metrics.began(path.protocol)
        self._job = path.job(data, self._ran, self.arrived)
        return self._job

    def _ran(self, result: Mapping[str, Array] | ServingError, timing: Timing) -> None:
        """From a worker."""
        path = self.lane.answer.path
        metrics = path.model.metrics
        if not self.decide():
            metrics.waited(timing)
            return
        if isinstance(result, ServingError):
            metrics.failed(path.protocol, result.reason, self.arrived)
        metrics.ended(self.arrived, timing)
        self._result = result
        # The last answer of a connection says so; that, and errors, are written there.
        if isinstance(result, ServingError) or self.lane.owner.draining:
            self.answer(())
            return
        try:
            self.answer(self.lane.answer.encode_outputs(result, b""))
            if path.is_quick():  # The event loop runs those that follow.
                self.lane.open = False
        except Exception:
            log.debug("an answer is encoded again", exc_info=True)
            self.answer(())

    def settled(self, connection: HttpConnection, sent: bool) -> None:
        """The answer was sent, or is to be written; on the event loop."""
        if not sent and not hasattr(self, "_result"):
            self.give()
            return
        reply = None
        if not sent:
            try:
                reply = self.lane.answer.reply(self._result, b"")
            except Exception as error:
                reply = Reply.of_failure(error)
        connection.answered(Request(), reply)

    def expire(self) -> None:
        """Answer that it took too long, unless it has an answer."""
        if self.decide():
            path = self.lane.answer.path
            text = f"must answer within {path.bounds.seconds:g} s"
            error = RequestTimeoutError(f"model {path.model.name}", text)
            self._end(error, error.reason)

    def cancel(self) -> None:
        """End it, unless it was answered; on the event loop."""
        if self.decide():
            error = UnavailableError("server", "is shutting down; the request was cut")
            self._end(error, "cancelled")

    def _end(self, error: ServingError, reason: str) -> None:
        path = self.lane.answer.path
        metrics, scheduler = path.model.metrics, path.model.scheduler
        if not self.taken:
            metrics.began(path.protocol)
            scheduler.gate.remove(self)
        elif (job := getattr(self, "_job", None)) is not None:
            scheduler.cancel(job)
        metrics.failed(path.protocol, reason, self.arrived)
        metrics.ended(self.arrived)
        self._result = error
        self.settle()
