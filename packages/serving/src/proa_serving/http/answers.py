"""The service as a connection sees it: who may send, and what is answered."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from proa_serving.http.messages import Reply, Request
from proa_serving.models.waiting import Answered, WaitingRun
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import Array


class FastAnswer(Protocol):
    """What answers requests that repeat one but for their numbers and their id."""

    def is_quick(self) -> bool:
        """Whether the model is likely to run on the event loop."""
        ...

    def __call__(self, data: bytes | memoryview, given: bytes) -> Sequence[Any] | None:
        """The parts of the answer with its head, if the model runs on the event loop.

        Args:
            data: Raw bytes of the body.
            given: The request's id.
        """
        ...

    def lane(self, owner: Any) -> Any:
        """Where the native transport puts requests that wait for a worker.

        Args:
            owner: What their connections share.
        """
        ...

    def run_later(
        self, data: bytes | memoryview, answered: Answered
    ) -> WaitingRun | None:
        """Have a worker run the model; None where the request is to be answered as
        others are. Raises a ServingError if it is refused."""
        ...

    def encode_outputs(
        self, outputs: Mapping[str, Array], given: bytes
    ) -> Sequence[Any]:
        """The parts of the answer with its head, from what the model gave."""
        ...

    def reply(self, result: Mapping[str, Array] | ServingError, given: bytes) -> Reply:
        """The same before it is encoded, and of errors."""
        ...


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

    def known_path(self, request: Request) -> tuple[bytes, FastAnswer] | None:
        """As :meth:`fast_path`, if a request like it was answered, to whomever."""
        ...

    def fast_path(self, request: Request) -> tuple[bytes, FastAnswer] | None:
        """The JSON of a request that was answered, without its id, and what answers
        requests with the same; None where each is to be answered by itself."""
        ...
