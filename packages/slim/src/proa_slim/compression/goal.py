"""What a compression measures with, and how fast its model shall be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proa_slim.compression.samples import Samples
from proa_slim.quant.model import QuantizedModel


@dataclass(frozen=True)
class Goal:
    """What callers of `compress_program` decide on how models are measured.

    Attributes:
        samples: To measure on; the second half of the data if not given.
        metric: In percent, the greater the better; accuracy or agreement if not given.
        speedup: How many times as fast a run of one sample shall be.
    """

    samples: Samples | None = None
    metric: Callable[[QuantizedModel], float] | None = None
    speedup: float | None = None


def halves(samples: Samples, test: Samples | None) -> tuple[Samples, Samples]:
    """What is trained and calibrated on, and what is measured on."""
    if test is not None:
        return samples, test
    half = len(samples) // 2
    return samples.part(slice(half)), samples.part(slice(half, None))
