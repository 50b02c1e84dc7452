"""The text of metrics, by ``prometheus_client``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from proa_serving.metrics import PROTOCOLS, Metrics, ModelMetrics

_LABELS = ("model", "version")
_BY_PROTOCOL = (*_LABELS, "protocol")


def expose(metrics: Metrics) -> bytes:
    """All of them, in the text format."""
    registry = CollectorRegistry()
    registry.register(_Families(metrics))
    return generate_latest(registry)


class _Families(Collector):
    """The families of all models of one server."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """The families, for the registry."""
        yield from self._collect_counters()
        yield GaugeMetricFamily(
            "proa_serve_in_flight_bytes",
            "Memory of the requests that are received and served.",
            self._metrics.in_flight_bytes(),
        )
        yield GaugeMetricFamily(
            "proa_serve_cache_bytes",
            "Memory of the answers that are kept.",
            self._metrics.cache_bytes(),
        )
        for name, text in (
            ("cache_hits", "Inference requests that were answered from memory."),
            ("cache_misses", "Inference requests that were looked up in vain."),
        ):
            counter = CounterMetricFamily(f"proa_serve_{name}", text, labels=_LABELS)
            for model, version, held in self._metrics.held():
                counter.add_metric((model, version), getattr(held, name))
            yield counter
        yield self._gauge(
            "in_flight",
            "Inference requests that are being served.",
            lambda held: held.in_flight,
        )
        yield self._gauge(
            "queue_depth",
            "Inference requests that wait for a worker.",
            lambda held: held.queue_depth(),
        )
        for name, text in (
            ("request_seconds", "Time from a decoded request to its outputs."),
            ("queue_seconds", "Time that a request waited for a worker."),
            ("compute_seconds", "Time that the model ran, for each batch."),
            ("batch_rows", "Rows that the model ran at one time."),
        ):
            family = HistogramMetricFamily(f"proa_serve_{name}", text, labels=_LABELS)
            for model, version, held in self._metrics.held():
                getattr(held, name).add_to(family, (model, version))
            yield family

    def _gauge(
        self, name: str, text: str, value: Callable[[ModelMetrics], float]
    ) -> Metric:
        family = GaugeMetricFamily(f"proa_serve_{name}", text, labels=_LABELS)
        for model, version, held in self._metrics.held():
            family.add_metric((model, version), value(held))
        return family

    def _collect_counters(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "proa_serve_requests",
            "Inference requests, answered or failed.",
            labels=_BY_PROTOCOL,
        )
        failures = CounterMetricFamily(
            "proa_serve_request_failures",
            "Inference requests that failed, by reason.",
            labels=(*_BY_PROTOCOL, "reason"),
        )
        refused: dict[str, int] = defaultdict(int)
        for (protocol, reason), count in self._metrics.refusals().items():
            refused[protocol] += count
            failures.add_metric(("", "", protocol, reason), count)
        for protocol, count in refused.items():
            requests.add_metric(("", "", protocol), count)
        for model, version, held in self._metrics.held():
            for protocol, count in held.requests.items():
                if not count and protocol not in PROTOCOLS[:2]:
                    continue
                requests.add_metric((model, version, protocol), count)
            for (protocol, reason), count in list(held.failures.items()):
                failures.add_metric((model, version, protocol, reason), count)
        yield requests
        yield failures
