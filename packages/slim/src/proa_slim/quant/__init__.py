"""int8 quantization: observers, calibration, training, and the integer program."""

from proa_slim.quant.analysis import AnalysisPTQ
from proa_slim.quant.half import half_weights
from proa_slim.quant.imperative import ImperativeQuantAware
from proa_slim.quant.layers import (
    QuantizedActivation,
    QuantizedConvNorm,
    QuantizedLayer,
)
from proa_slim.quant.model import LayerReport, QuantizedModel
from proa_slim.quant.model_file import PostTrainingQuantization
from proa_slim.quant.pair_layers import MatMul, QuantizedAttention, QuantizedMatMul
from proa_slim.quant.post_static import quant_post_static
from proa_slim.quant.ptq import PTQ
from proa_slim.quant.speed import LayerSpeed, layer_speeds, slow_in_int8
from proa_slim.quant.static_training import convert, quant_aware
from proa_slim.quant.training import QAT
from proa_slim.quant.weight_only import quant_post_dynamic

__all__ = [
    "PTQ",
    "QAT",
    "AnalysisPTQ",
    "ImperativeQuantAware",
    "LayerReport",
    "LayerSpeed",
    "MatMul",
    "PostTrainingQuantization",
    "QuantizedActivation",
    "QuantizedAttention",
    "QuantizedConvNorm",
    "QuantizedLayer",
    "QuantizedMatMul",
    "QuantizedModel",
    "convert",
    "half_weights",
    "layer_speeds",
    "quant_aware",
    "quant_post_dynamic",
    "quant_post_static",
    "slow_in_int8",
]


def __dir__() -> list[str]:
    return __all__
