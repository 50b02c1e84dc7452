"""The service as a connection sees it: who may send, and what is answered."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from proa_serving.http.messages import Reply, Request


class Answers(Protocol):
    """Where requests go; answering never raises."""

    def admit(self, request: Request, client: str) -> None:
        """Raise a ServingError if the client may not send this request."""
        ...

    def cors(self, origin: bytes) -> str:
        """The headers for a web page of ``origin``."""
        ...

    def answer(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]: ...
