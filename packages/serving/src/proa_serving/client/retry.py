"""When a client tries again, and where."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proa_serving.client.base import parse_address
from proa_serving.protocol.errors import (
    InvalidRequestError,
    QueueFullError,
    RequestTimeoutError,
    ServingError,
    SlowRequestError,
    UnavailableError,
)

# Seconds without requests for a server that could not be reached.
_REST = 1.0


@dataclass(frozen=True)
class Retry:
    """How often a request is sent again.

    A server that is overloaded must not get more requests for it: further tries are
    paid from a budget, which every request adds ``budget`` to.

    Args:
        attempts: Times in all that one request is sent.
        first_s: Seconds before the second, with a random part (full jitter).
        max_s: Seconds at most, as each wait is twice the one before.
        budget: Further tries for each request, over time.
        reserve: Further tries that may be saved up.
    """

    attempts: int = 3
    first_s: float = 0.02
    max_s: float = 1.0
    budget: float = 0.1
    reserve: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.first_s, self.max_s, self.budget) < 0:
            raise InvalidRequestError("retry", f"must be positive, got {self}")

    def delay(self, attempt: int) -> float:
        """Seconds to wait before a try; the second is number 1."""
        bound = min(self.max_s, self.first_s * 2.0 ** (attempt - 1))
        return random.uniform(0, bound)


def is_passing(error: ServingError) -> bool:
    """Whether the same request may succeed later, or elsewhere."""
    return isinstance(error, UnavailableError | QueueFullError | SlowRequestError)


class Spread:
    """Addresses in proportion to their weights, and what is left of the budget.

    Safe to share between threads.

    Args:
        addresses: host:port or unix:path each, or weights by address.
        retry: How often a request is sent again.

    Raises:
        InvalidRequestError: If there is none, or one is wrong, or a weight is.
    """

    def __init__(
        self, addresses: str | Sequence[str] | Mapping[str, float], retry: Retry
    ) -> None:
        if isinstance(addresses, str):
            addresses = [addresses]
        if not isinstance(addresses, Mapping):
            addresses = dict.fromkeys(addresses, 1.0)
        self._weights = dict(addresses)
        if not self._weights or min(self._weights.values()) <= 0:
            raise InvalidRequestError(
                "client", f"must have addresses with weights above 0, got {addresses}"
            )
        for address in self._weights:
            parse_address(address)
        self._credit = dict.fromkeys(self._weights, 0.0)
        self._resting: dict[str, float] = {}
        self._retry = retry
        self._saved = retry.reserve
        self._changing = threading.Lock()

    def begin(self) -> None:
        """A request begins."""
        with self._changing:
            self._saved = min(self._retry.reserve, self._saved + self._retry.budget)

    def may_retry(self) -> bool:
        """Whether the budget allows one more try, which is then taken from it."""
        with self._changing:
            if self._saved < 1:
                return False
            self._saved -= 1
            return True

    def next(self, avoid: str = "") -> str:
        """The address for a try, not ``avoid`` where there is another.

        Each gets its share evenly (smooth weighted round robin); those that could not
        be reached rest for a second, unless all do.
        """
        now = time.monotonic()
        with self._changing:
            fit = [
                each
                for each in self._weights
                if each != avoid and self._resting.get(each, 0.0) <= now
            ]
            fit = fit or [each for each in self._weights if each != avoid]
            fit = fit or list(self._weights)
            for each in fit:
                self._credit[each] += self._weights[each]
            chosen = max(fit, key=self._credit.__getitem__)
            self._credit[chosen] -= sum(self._weights[each] for each in fit)
            return chosen

    def failed(self, address: str) -> None:
        """The server at ``address`` is not available."""
        with self._changing:
            self._resting[address] = time.monotonic() + _REST


class Deadline:
    """The end of the time that one request has, over all its tries."""

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise InvalidRequestError(
                "client", f"timeout must be positive, got {seconds}"
            )
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds.

        Raises:
            RequestTimeoutError: If none are.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise RequestTimeoutError(
                "client", f"no server answered within {self._seconds:g} s"
            )
        return left


class Tries:
    """The tries of one request, until one succeeds or the error is final.

    Args:
        spread: Where they go, and the budget they are paid from.
        retry: How often, and after which pauses.
        seconds: That all of them together have.
    """

    def __init__(self, spread: Spread, retry: Retry, seconds: float) -> None:
        self.deadline = Deadline(seconds)
        self._spread, self._retry = spread, retry
        self._attempt, self._address = 0, ""
        spread.begin()

    def next(self) -> str:
        """The address for the next one."""
        self._attempt += 1
        self._address = self._spread.next(self._address)
        return self._address

    def pause_after(self, error: ServingError) -> float:
        """Seconds to wait after a try that failed, before the next.

        Raises:
            ServingError: ``error``, if there shall be no other try.
            RequestTimeoutError: If no time is left for one.
        """
        if (
            not is_passing(error)
            or self._attempt >= self._retry.attempts
            or not self._spread.may_retry()
        ):
            raise error
        return min(self._retry.delay(self._attempt), self.deadline.left())
