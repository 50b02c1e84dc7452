"""Graphs of vertices and edges: messages, segments, new numbers, samples."""

from proa.base.public import publish as _publish
from proa.geometric.messages import send_u_recv, send_ue_recv, send_uv
from proa.geometric.reindex import reindex_graph, reindex_heter_graph
from proa.geometric.sampling import sample_neighbors, weighted_sample_neighbors
from proa.incubate.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)

__all__ = [
    "reindex_graph", "reindex_heter_graph", "sample_neighbors", "segment_max",
    "segment_mean", "segment_min", "segment_sum", "send_u_recv", "send_ue_recv",
    "send_uv", "weighted_sample_neighbors",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
