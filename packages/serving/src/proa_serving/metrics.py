"""What the server counts and times, for Prometheus to collect."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from proa_serving.schedule.queue import Timing

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PROTOCOLS = ("http", "grpc")
_SECONDS = (
    *(1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LABELS = ("model", "version")


class Metrics:
    """One registry, shared by all models of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        by_protocol = (*_LABELS, "protocol")
        self.requests = Counter(
            "proa_serve_requests",
            "Inference requests, answered or failed.",
            by_protocol,
            registry=registry,
        )
        self.failures = Counter(
            "proa_serve_request_failures",
            "Inference requests that failed, by reason.",
            (*by_protocol, "reason"),
            registry=registry,
        )
        self.in_flight = Gauge(
            "proa_serve_in_flight",
            "Inference requests that are being served.",
            _LABELS,
            registry=registry,
        )
        self.queue_depth = Gauge(
            "proa_serve_queue_depth",
            "Inference requests that wait for a worker.",
            _LABELS,
            registry=registry,
        )
        self.request_seconds = self._histogram(
            "request_seconds", "Time from a decoded request to its outputs.", _SECONDS
        )
        self.queue_seconds = self._histogram(
            "queue_seconds", "Time that a request waited for a worker.", _SECONDS
        )
        self.compute_seconds = self._histogram(
            "compute_seconds", "Time that the model ran, for each batch.", _SECONDS
        )
        self.batch_rows = self._histogram(
            "batch_rows", "Rows that the model ran at one time.", _ROWS
        )

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"proa_serve_{name}",
            text,
            _LABELS,
            registry=self.registry,
            buckets=buckets,
        )

    def expose(self) -> bytes:
        """All of it, in the text format."""
        return generate_latest(self.registry)

    def refused(self, protocol: str, reason: str) -> None:
        """Count a request that reached no model; clients must not make up labels."""
        self.requests.labels("", "", protocol).inc()
        self.failures.labels("", "", protocol, reason).inc()


class ModelMetrics:
    """The metrics of one version of a model, its labels looked up once."""

    def __init__(self, metrics: Metrics, model: str, version: str) -> None:
        labels = (model, version)
        self._labels = labels
        self._failures = metrics.failures
        self._requests = {
            protocol: metrics.requests.labels(*labels, protocol)
            for protocol in PROTOCOLS
        }
        self._in_flight = metrics.in_flight.labels(*labels)
        self._queue_depth = metrics.queue_depth.labels(*labels)
        self._request_seconds = metrics.request_seconds.labels(*labels)
        self._queue_seconds = metrics.queue_seconds.labels(*labels)
        self._compute_seconds = metrics.compute_seconds.labels(*labels)
        self._batch_rows = metrics.batch_rows.labels(*labels)

    def watch_queue(self, depth: Callable[[], float]) -> None:
        """Call ``depth`` whenever metrics are collected."""
        self._queue_depth.set_function(depth)

    def began(self, protocol: str) -> None:
        self._requests[protocol].inc()
        self._in_flight.inc()

    def ended(self, seconds: float) -> None:
        self._in_flight.dec()
        self._request_seconds.observe(seconds)

    def failed(self, protocol: str, reason: str) -> None:
        self._failures.labels(*self._labels, protocol, reason).inc()

    def waited(self, timing: Timing) -> None:
        self._queue_seconds.observe(timing.queued)

    def ran(self, rows: int, seconds: float) -> None:
        self._batch_rows.observe(rows)
        self._compute_seconds.observe(seconds)
