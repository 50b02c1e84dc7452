"""Functions that Paddle keeps in `paddle.incubate` or outside its core: reductions of
segments, sums of looked-up rows, a filter of keys.
"""

from proa.base.public import publish as _publish
from proa.incubate.bloom import BloomFilter, murmurhash3_x64_128
from proa.incubate.embedding_pool import embedding_seq_pool, fused_embedding_seq_pool
from proa.incubate.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)

__all__ = [
    "BloomFilter", "embedding_seq_pool", "fused_embedding_seq_pool",
    "murmurhash3_x64_128", "segment_max", "segment_mean", "segment_min", "segment_sum",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
