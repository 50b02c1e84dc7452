"""Makes Proa models smaller."""

from proa_slim.config import QuantConfig
from proa_slim.quant import (
    QAT,
    LayerReport,
    QuantizedLayer,
    QuantizedModel,
    quant_post_static,
)

__version__ = "0.1.0"

__all__ = [
    "QAT",
    "LayerReport",
    "QuantConfig",
    "QuantizedLayer",
    "QuantizedModel",
    "quant_post_static",
]
