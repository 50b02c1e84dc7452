"""The protocol's statistics extension: counts and times of each version."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from proa_serving.metrics import ModelMetrics


@dataclass(frozen=True)
class Duration:
    """How often something happened, and the nanoseconds of all."""

    count: int
    ns: int

    @classmethod
    def of(cls, count: int, seconds: float) -> Duration:
        return cls(count, max(0, round(seconds * 1e9)))


_NONE = Duration(0, 0)


@dataclass(frozen=True)
class BatchStatistics:
    """Runs of one number of rows."""

    batch_size: int
    compute_infer: Duration
    compute_input: Duration = _NONE
    compute_output: Duration = _NONE


@dataclass(frozen=True)
class ModelStatistics:
    """One version. ``inference_count`` are rows, ``execution_count`` runs.

    ``last_inference`` are milliseconds since 1970, 0 for never. What the protocol
    counts as reading inputs and writing outputs is part of ``compute_infer`` here.
    """

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: dict[str, Duration]
    batch_stats: list[BatchStatistics] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, version: str, held: ModelMetrics) -> ModelStatistics:
        failures = sum(held.failures.values())
        ended = held.request_seconds
        last = 0
        if held.last_ended:
            last = round((time.time() - time.monotonic() + held.last_ended) * 1e3)
        runs = held.compute_seconds
        return cls(
            name,
            version,
            last,
            round(held.batch_rows.total),
            runs.count,
            {
                "success": Duration.of(
                    ended.count - failures, ended.total - held.failed_seconds
                ),
                "fail": Duration.of(failures, held.failed_seconds),
                "queue": Duration.of(
                    held.queue_seconds.count, held.queue_seconds.total
                ),
                "compute_input": _NONE,
                "compute_infer": Duration.of(runs.count, runs.total),
                "compute_output": _NONE,
                "cache_hit": Duration.of(held.cache_hits, 0.0),
                "cache_miss": Duration.of(held.cache_misses, 0.0),
            },
            [
                BatchStatistics(rows, Duration.of(count, seconds))
                for rows, (count, seconds) in sorted(held.batches.items())
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """As REST has it."""
        return asdict(self)
