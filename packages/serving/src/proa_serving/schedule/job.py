"""A request as a model's queue has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from proa_serving.protocol.errors import ServingError
from proa_serving.schedule.merge import Arrays


class Timing(NamedTuple):
    """Seconds that a request waited and was computed."""

    queued: float
    computed: float


Done = Callable[[Arrays | ServingError, Timing], None]


@dataclass(slots=True, eq=False)
class Job:
    """A request that waits or runs. ``done`` is called once, from a worker.

    ``expires`` is the time, of ``time.monotonic``, from which it is not begun.
    """

    inputs: Arrays
    rows: int
    key: Hashable
    done: Done
    expires: float = float("inf")
    priority: int = 0
    arrived: float = field(default_factory=time.monotonic)
