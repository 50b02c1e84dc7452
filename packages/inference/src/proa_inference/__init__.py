"""Runs a ``.proa`` model on a server: one file in, arrays in and out, no framework
around.

config = Config("lenet.proa")
predictor = create_predictor(config)
(logits,) = predictor.run([images])
"""

from proa_inference.config import Config, PassBuilder
from proa_inference.pool import PredictorPool
from proa_inference.predictor import (
    Predictor,
    Tensor,
    TensorSpec,
    create_predictor,
)

__version__ = "0.1.0"

__all__ = [
    "Config",
    "PassBuilder",
    "Predictor",
    "PredictorPool",
    "Tensor",
    "TensorSpec",
    "create_predictor",
    "get_version",
]


def get_version() -> str:
    """Version of the package."""
    return __version__


def __dir__() -> list[str]:
    return __all__
