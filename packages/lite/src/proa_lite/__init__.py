"""Runs a ``.proa`` model with a library of a few hundred kilobytes. Needs NumPy alone.

predictor = create_predictor(Config("lenet.proa"))
(logits,) = predictor.run([images])
"""

from proa_lite.errors import (
    InvalidArgumentError,
    LiteError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    VersionError,
)
from proa_lite.predictor import (
    Config,
    Predictor,
    Tensor,
    TensorSpec,
    create_predictor,
    isa,
)

__version__ = "0.1.0"

__all__ = [
    "Config",
    "InvalidArgumentError",
    "LiteError",
    "NotFoundError",
    "OutOfRangeError",
    "Predictor",
    "ResourceExhaustedError",
    "Tensor",
    "TensorSpec",
    "UnimplementedError",
    "VersionError",
    "create_predictor",
    "isa",
]


def __dir__() -> list[str]:
    return __all__
