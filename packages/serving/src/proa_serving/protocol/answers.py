"""What answers requests, whatever it is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from proa_serving.protocol.messages import InferRequest, InferResponse

Answer = InferResponse | Coroutine[Any, Any, InferResponse]


class Answers(Protocol):
    """A model, an ensemble, or a split between versions."""

    def infer(self, request: InferRequest, protocol: str) -> Answer:
        """The answer, or where it takes its time what will become it."""
        ...
