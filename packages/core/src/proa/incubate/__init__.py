"""Functions that Paddle keeps in `paddle.incubate`: reductions of segments."""

from __future__ import annotations

import sys

from proa.base.public import publish
from proa.incubate.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_sum"]

publish(sys.modules[__name__])
