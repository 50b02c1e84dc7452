"""Latency and throughput of a model on this machine, on random or given input."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError
from proa_inference.predictor import Predictor
from proa_inference.tensor import TensorSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class Timing:
    """What `time_runs` measured; times in milliseconds."""

    runs: int
    batch: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    per_second: float


def random_inputs(
    specs: Sequence[TensorSpec], batch: int, seed: int = 0
) -> list[Array]:
    """Standard normal floats, small integers; an unknown first dimension is `batch`.

    Raises:
        InvalidArgumentError: If another dimension is unknown.
    """
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for spec in specs:
        shape = tuple(
            batch if d == -1 and i == 0 else d for i, d in enumerate(spec.shape)
        )
        if -1 in shape:
            raise InvalidArgumentError(
                f"[bench] input {spec.name!r} must have a known shape but for the "
                "batch "
                f"(give one by --shape), got {spec.shape}"
            )
        if spec.dtype.kind in "fc":
            arrays.append(rng.standard_normal(shape).astype(spec.dtype))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(spec.dtype))
    return arrays


def time_runs(
    predictor: Predictor, inputs: Sequence[Array], runs: int, warmup: int = 5
) -> Timing:
    """Run `predictor` on `inputs` again and again."""
    for _ in range(warmup):
        predictor.run(inputs)
    times = np.empty(runs)
    for i in range(runs):
        start = time.perf_counter()
        predictor.run(inputs)
        times[i] = time.perf_counter() - start
    batch = inputs[0].shape[0] if inputs and inputs[0].ndim else 1
    p50, p90, p99 = np.percentile(times, [50, 90, 99]) * 1e3
    return Timing(
        runs,
        batch,
        float(times.mean() * 1e3),
        float(p50),
        float(p90),
        float(p99),
        float(batch / times.mean()),
    )
