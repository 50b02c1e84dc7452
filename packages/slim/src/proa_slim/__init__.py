"""Makes Proa models smaller."""

import os as _os

from proa.errors.locations import add_own_code as _add_own_code
from proa_slim import auto_compression, dist, dygraph, nas, pantheon, search
from proa_slim.analysis import (
    TableLatencyPredictor,
    dygraph_flops,
    flops,
    model_size,
)
from proa_slim.compression import Recipe, compress
from proa_slim.config import QuantConfig
from proa_slim.distill import DML, Distill, DistillLoss
from proa_slim.prune import (
    FilterPruner,
    FPGMFilterPruner,
    GMPUnstructuredPruner,
    L1NormFilterPruner,
    L2NormFilterPruner,
    PruningPlan,
    UnstructuredPruner,
    prune_channels,
)
from proa_slim.prune.pruner import Pruner
from proa_slim.quant import (
    PTQ,
    QAT,
    AnalysisPTQ,
    ImperativeQuantAware,
    LayerReport,
    LayerSpeed,
    MatMul,
    PostTrainingQuantization,
    QuantizedActivation,
    QuantizedAttention,
    QuantizedConvNorm,
    QuantizedLayer,
    QuantizedMatMul,
    QuantizedModel,
    half_weights,
    layer_speeds,
    quant_post_dynamic,
    quant_post_static,
    slow_in_int8,
)

_add_own_code(_os.path.dirname(__file__))  # errors name the user's lines

__version__ = "0.1.0"

__all__ = [
    "DML",
    "PTQ",
    "QAT",
    "AnalysisPTQ",
    "Distill",
    "DistillLoss",
    "FPGMFilterPruner",
    "FilterPruner",
    "GMPUnstructuredPruner",
    "L1NormFilterPruner",
    "ImperativeQuantAware",
    "L2NormFilterPruner",
    "LayerReport",
    "LayerSpeed",
    "MatMul",
    "PostTrainingQuantization",
    "Pruner",
    "PruningPlan",
    "Recipe",
    "QuantConfig",
    "QuantizedActivation",
    "QuantizedAttention",
    "QuantizedConvNorm",
    "QuantizedLayer",
    "QuantizedMatMul",
    "QuantizedModel",
    "TableLatencyPredictor",
    "UnstructuredPruner",
    "auto_compression",
    "compress",
    "dist",
    "model_size",
    "nas",
    "pantheon",
    "dygraph",
    "dygraph_flops",
    "flops",
    "half_weights",
    "layer_speeds",
    "prune_channels",
    "quant_post_dynamic",
    "quant_post_static",
    "search",
    "slow_in_int8",
]


def __dir__() -> list[str]:
    return __all__
