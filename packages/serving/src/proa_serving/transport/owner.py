"""What a connection knows of the server that accepted it."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from proa_serving.schedule.budget import ByteBudget

AnswersT_co = TypeVar("AnswersT_co", covariant=True)


class Owner(Protocol[AnswersT_co]):
    """What connections of one listener share: limits, and where requests go."""

    budget: ByteBudget
    draining: bool
    buffer: memoryview
    max_request_bytes: int
    seconds: dict[str, float]

    @property
    def answers(self) -> AnswersT_co: ...
    def forget(self, connection: Any) -> None: ...
