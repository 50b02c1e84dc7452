"""What a connection knows of the server: limits, and where requests go."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from proa_serving.http.messages import Reply, Request
from proa_serving.schedule.budget import ByteBudget


class Answers(Protocol):
    """Where requests go; answering never raises."""

    def admit(self, request: Request, client: str) -> None:
        """Raise a ServingError if the client may not send this request."""
        ...

    def cors(self, origin: bytes) -> str:
        """The headers for a web page of ``origin``."""
        ...

    def answer(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]: ...


class Owner(Protocol):
    """What connections of one server share."""

    budget: ByteBudget
    draining: bool
    buffer: memoryview
    max_request_bytes: int
    seconds: dict[str, float]

    @property
    def answers(self) -> Answers: ...
    def forget(self, connection: Any) -> None: ...
