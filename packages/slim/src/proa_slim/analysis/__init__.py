"""What a network costs: multiply-adds, parameters and time."""

from proa_slim.analysis.flops import LayerCost, cost_table, flops
from proa_slim.analysis.latency import OperatorLatency, latency_table, median_latency

__all__ = [
    "LayerCost",
    "OperatorLatency",
    "cost_table",
    "flops",
    "latency_table",
    "median_latency",
]
