"""Runs a ``.proa`` model on a server: one file in, arrays in and out, no framework
around.

config = Config("lenet.proa")
predictor = create_predictor(config)
(logits,) = predictor.run([images])

What no server needs (tools, the API of Paddle 1.x) is imported when it is first named.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from proa_inference.config import Config
from proa_inference.delegate import Delegate, LiteDelegate, OnnxRuntimeDelegate
from proa_inference.devices import (
    InternalUtils,
    XpuConfig,
    get_trt_compile_version,
    get_trt_runtime_version,
)
from proa_inference.encryption import decrypt, encrypt, encrypt_file, generate_key
from proa_inference.passes import PassBuilder
from proa_inference.pool import PredictorPool
from proa_inference.predictor import Predictor, create_predictor
from proa_inference.profile import StepTime, profile_table, write_chrome_trace
from proa_inference.tensor import Tensor, TensorSpec
from proa_inference.types import (
    DataType,
    PlaceType,
    PrecisionType,
    get_num_bytes_of_data_type,
)

if _TYPE_CHECKING:
    from proa_inference.compare import (
        LayerDifference,
        compare_models,
        comparison_table,
    )
    from proa_inference.legacy import (
        AnalysisConfig,
        PaddleDType,
        PaddlePredictor,
        PaddleTensor,
        ZeroCopyTensor,
        create_paddle_predictor,
    )
    from proa_inference.mixed_precision import convert_to_mixed_precision

__version__ = "0.1.0"

PaddlePassBuilder = PassBuilder

#: Names that are imported when they are first named, and their modules.
_LAZY = {
    "AnalysisConfig": "legacy",
    "LayerDifference": "compare",
    "PaddleDType": "legacy",
    "PaddlePredictor": "legacy",
    "PaddleTensor": "legacy",
    "ZeroCopyTensor": "legacy",
    "compare_models": "compare",
    "comparison_table": "compare",
    "convert_to_mixed_precision": "mixed_precision",
    "create_paddle_predictor": "legacy",
}

__all__ = [
    "AnalysisConfig",
    "Config",
    "DataType",
    "Delegate",
    "InternalUtils",
    "LayerDifference",
    "LiteDelegate",
    "OnnxRuntimeDelegate",
    "PaddleDType",
    "PaddlePassBuilder",
    "PaddlePredictor",
    "PaddleTensor",
    "PassBuilder",
    "PlaceType",
    "PrecisionType",
    "Predictor",
    "PredictorPool",
    "StepTime",
    "Tensor",
    "TensorSpec",
    "XpuConfig",
    "ZeroCopyTensor",
    "compare_models",
    "comparison_table",
    "convert_to_mixed_precision",
    "create_paddle_predictor",
    "create_predictor",
    "decrypt",
    "encrypt",
    "encrypt_file",
    "generate_key",
    "get_num_bytes_of_data_type",
    "get_trt_compile_version",
    "get_trt_runtime_version",
    "get_version",
    "profile_table",
    "write_chrome_trace",
]


def get_version() -> str:
    """Version of the package."""
    return __version__


def __getattr__(name: str) -> _Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_LAZY[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
