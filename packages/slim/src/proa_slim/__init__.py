"""Makes Proa models smaller."""

import os

from proa.errors.locations import add_own_code
from proa_slim.config import QuantConfig
from proa_slim.quant import (
    QAT,
    LayerReport,
    QuantizedLayer,
    QuantizedModel,
    quant_post_static,
)

add_own_code(os.path.dirname(__file__))  # errors name the user's lines

__version__ = "0.1.0"

__all__ = [
    "QAT",
    "LayerReport",
    "QuantConfig",
    "QuantizedLayer",
    "QuantizedModel",
    "quant_post_static",
]
