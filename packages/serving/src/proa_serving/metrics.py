"""What the server counts and times, for Prometheus to collect.

Counting is plain additions, as a small request spends longer in
``prometheus_client``'s counters than in its model. That library writes the text, in
``observe.exposition``, which is imported when the first one is wanted.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING

from proa_serving.schedule.job import Timing

if TYPE_CHECKING:
    from prometheus_client.metrics_core import HistogramMetricFamily

#: Of the text format of Prometheus.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What a request came by; the last two are steps of ensembles, and copies.
PROTOCOLS = ("http", "grpc", "inside", "shadow")
_SECONDS = (
    *(1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_MAX_BATCH_SIZES = 64
# Loads of a version that is not served any more are shown until there are so many.
_MAX_MODELS = 256


class Histogram:
    """Counts of values up to each of ``bounds``, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def total(self) -> float:
        """The sum of the values."""
        return self._sum

    def add_to(self, family: HistogramMetricFamily, labels: tuple[str, ...]) -> None:
        """Add its samples to ``family``."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        buckets = list(zip(names, accumulate(self._counts), strict=True))
        family.add_metric(labels, buckets, self._sum)


class ModelMetrics:
    """The metrics of one version of a model. Safe to use from any thread."""

    def __init__(self) -> None:
        self._requests = dict.fromkeys(PROTOCOLS, 0)
        self.failures: dict[tuple[str, str], int] = defaultdict(int)
        self.failed_seconds = 0.0
        self._in_flight = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.last_ended = 0.0  # of time.monotonic
        # Runs and their seconds, by rows.
        self.batches: dict[int, tuple[int, float]] = {}
        self.queue_depth: Callable[[], float] = lambda: 0
        self._arrivals: Callable[[], int] = lambda: 0
        self.request_seconds = Histogram(_SECONDS)
        self.queue_seconds = Histogram(_SECONDS)
        self.compute_seconds = Histogram(_SECONDS)
        self.batch_rows = Histogram(_ROWS)
        self._changing = threading.Lock()

    def watch_queue(
        self, depth: Callable[[], float], arrivals: Callable[[], int]
    ) -> None:
        """Call these whenever metrics are collected.

        Args:
            depth: What waits for a worker.
            arrivals: What of it came by HTTP and was not given to :meth:`began` yet.
        """
        self.queue_depth, self._arrivals = depth, arrivals

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return self._in_flight + self._arrivals()

    @property
    def requests(self) -> dict[str, int]:
        """Requests by protocol."""
        return {
            **self._requests,
            "http": self._requests["http"] + self._arrivals(),
        }

    def began(self, protocol: str) -> None:
        with self._changing:
            self._requests[protocol] += 1
            self._in_flight += 1

    def withdrawn(self, protocol: str) -> None:
        """A request that began was given to another model."""
        with self._changing:
            self._requests[protocol] -= 1
            self._in_flight -= 1

    def ended(self, began: float, timing: Timing | None = None) -> None:
        """A request that began at that time, of ``time.monotonic``, has ended.

        Args:
            began: The time.
            timing: Of its run, unless it was given to :meth:`waited`.
        """
        with self._changing:
            if timing is not None:
                self.queue_seconds.observe(timing.queued)
            now = self.last_ended = time.monotonic()
            self._in_flight -= 1
            self.request_seconds.observe(now - began)

    def ran_at_once(self, protocol: str, began: float) -> None:
        """A request that began then was answered without a wait for a worker."""
        with self._changing:
            self._requests[protocol] += 1
            now = self.last_ended = time.monotonic()
            self.queue_seconds.observe(0.0)
            self.request_seconds.observe(now - began)

    def failed(self, protocol: str, reason: str, began: float) -> None:
        with self._changing:
            self.failures[protocol, reason] += 1
            self.failed_seconds += time.monotonic() - began

    def waited(self, timing: Timing) -> None:
        with self._changing:
            self.queue_seconds.observe(timing.queued)

    def ran(self, rows: int, seconds: float) -> None:
        with self._changing:
            self.batch_rows.observe(rows)
            self.compute_seconds.observe(seconds)
            runs, total = self.batches.get(rows, (0, 0.0))
            # A client may choose any number of rows; so many are kept apart.
            if runs or len(self.batches) < _MAX_BATCH_SIZES:
                self.batches[rows] = (runs + 1, total + seconds)


class Metrics:
    """The metrics of all models of one server."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, str], ModelMetrics] = {}
        self._retired: set[tuple[str, str]] = set()
        self.cache_bytes: Callable[[], float] = lambda: 0
        self.in_flight_bytes: Callable[[], float] = lambda: 0
        self._refused: dict[tuple[str, str], int] = defaultdict(int)

    def of_model(self, name: str, version: str) -> ModelMetrics:
        """The metrics of a version, which go on where it is loaded again."""
        held = self._models.get((name, version))
        if held is None:
            held = self._models[name, version] = ModelMetrics()
            for labels in list(self._models):
                if len(self._models) <= _MAX_MODELS:
                    break
                if labels in self._retired:
                    self._retired.discard(labels)
                    del self._models[labels]
        self._retired.discard((name, version))
        return held

    def retire(self, name: str, version: str) -> None:
        """The version is not served any more; its metrics may be dropped."""
        self._retired.add((name, version))

    def held(self) -> list[tuple[str, str, ModelMetrics]]:
        """Models, versions and their metrics."""
        return [(*labels, found) for labels, found in list(self._models.items())]

    def refused(self, protocol: str, reason: str) -> None:
        """Count a request that reached no model; clients must not make up labels."""
        self._refused[protocol, reason] += 1

    def refusals(self) -> dict[tuple[str, str], int]:
        """Protocols and reasons of what reached no model, and how often."""
        return dict(self._refused)
