"""Limits the requests of each client by a token bucket."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from proa_serving.protocol.errors import InvalidRequestError, RateLimitedError

# Clients that are remembered; a bucket that is forgotten is full again.
_MAX_CLIENTS = 10_000


@dataclass(frozen=True)
class RateLimit:
    """Requests of one client.

    Args:
        per_second: As many in the long run.
        burst: As many at once.
    """

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        if not 0 < self.per_second < float("inf"):
            raise InvalidRequestError(
                "rate limit", f"must be above 0, got {self.per_second} requests/s"
            )
        if not 1 <= self.burst < float("inf"):
            raise InvalidRequestError(
                "rate limit", f"burst must be at least 1, got {self.burst}"
            )

    @classmethod
    def parse(cls, text: str) -> RateLimit:
        """From ``RATE:BURST``, or ``RATE``, whose burst is that of a second."""
        rate, colon, burst = text.partition(":")
        try:
            per_second = float(rate)
            return cls(per_second, float(burst) if colon else max(1.0, per_second))
        except ValueError as error:
            if isinstance(error, InvalidRequestError):
                raise
            raise InvalidRequestError(
                "rate limit", f"must be RATE or RATE:BURST, got {text!r:.40}"
            ) from None


class RateLimiter:
    """A bucket of tokens for each client; used on the event loop alone.

    Args:
        limit: The rate at which buckets fill, and their size.
        now: The time, in seconds.
    """

    def __init__(
        self, limit: RateLimit, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._now = limit, now
        # Tokens, and when they were counted; the client that was seen last is last.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Take a token of ``client``'s.

        Raises:
            RateLimitedError: If none is left; it says when there will be one.
        """
        rate, burst = self._limit.per_second, self._limit.burst
        now = self._now()
        tokens, counted = self._buckets.get(client, (burst, now))
        tokens = min(burst, tokens + (now - counted) * rate)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise RateLimitedError((1 - tokens) / rate, rate)
