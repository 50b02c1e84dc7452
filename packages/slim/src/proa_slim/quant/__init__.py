"""int8 quantization: observers, calibration, training, and the integer program."""

from proa_slim.quant.model import LayerReport, QuantizedModel
from proa_slim.quant.post_training import quant_post_static
from proa_slim.quant.training import QAT, QuantizedLayer

__all__ = [
    "QAT",
    "LayerReport",
    "QuantizedLayer",
    "QuantizedModel",
    "quant_post_static",
]


def __dir__() -> list[str]:
    return __all__
