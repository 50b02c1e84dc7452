"""The service as a connection sees it: who may send, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from proa_serving.http.messages import Reply, Request
from proa_serving.protocol.errors import ServingError

# (raw bytes of a body, the request's id) -> the parts of the answer with its head, or
# None where the request is to be answered as others are.
FastAnswer = Callable[[bytes | memoryview, bytes], Sequence[Any] | None]


class Answers(Protocol):
    """Where requests go; answering never raises."""

    def admit(self, request: Request, client: str) -> None:
        """Raise a ServingError if the client may not send this request."""
        ...

    def refused(self, request: Request, error: ServingError) -> None:
        """A connection answers a request, or the head of one, with ``error``."""
        ...

    def cors(self, origin: bytes) -> str:
        """The headers for a web page of ``origin``."""
        ...

    def answer(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]: ...

    def fast_path(self, request: Request) -> tuple[bytes, FastAnswer] | None:
        """The JSON of a request that was answered, without its id, and what answers
        requests with the same; None where each is to be answered by itself."""
        ...
