"""What a network costs: multiply-adds, parameters and time."""

from proa_slim.analysis.flops import LayerCost, cost_table, flops, model_size
from proa_slim.analysis.latency import OperatorLatency, latency_table, median_latency
from proa_slim.analysis.predictor import TableLatencyPredictor

#: PaddleSlim's name of `flops` for Layers.
dygraph_flops = flops

__all__ = [
    "LayerCost",
    "OperatorLatency",
    "TableLatencyPredictor",
    "cost_table",
    "dygraph_flops",
    "flops",
    "latency_table",
    "median_latency",
    "model_size",
]
