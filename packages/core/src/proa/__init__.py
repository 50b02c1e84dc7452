"""Proa: tensors, autograd and layers with the API of PaddlePaddle 2.x.

What most programs need is imported here; larger parts (`proa.nn`, `proa.io`, …) are
imported when they are first named.
"""

import importlib as _importlib
import types as _types
import typing as _typing

from proa._core import Tensor as Tensor
from proa.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from proa.base import pickling as _pickling  # noqa: F401  (registers tensors)
from proa.base.device import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    NPUPlace,
    XPUPlace,
    get_device,
    is_compiled_with_cuda,
    set_device,
)
from proa.base.dtype import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from proa.base.dtype import bool_ as bool
from proa.base.flags import disable_signal_handler, get_flags, set_flags
from proa.base.mode import disable_static, enable_static, in_dynamic_mode
from proa.base.moved import note_moved as _note_moved
from proa.base.public import publish as _publish
from proa.base.random import get_rng_state, seed, set_rng_state
from proa.base.threads import (
    get_num_threads,
    is_flush_denormal,
    set_flush_denormal,
    set_num_threads,
)
from proa.ops.functions import *  # noqa: F403
from proa.tensor import FUNCTIONS as _FUNCTIONS
from proa.tensor.complex_parts import *  # noqa: F403
from proa.tensor.contraction import *  # noqa: F403
from proa.tensor.creation import *  # noqa: F403
from proa.tensor.cumulative import *  # noqa: F403
from proa.tensor.histograms import *  # noqa: F403
from proa.tensor.inplace import *  # noqa: F403
from proa.tensor.linalg import *  # noqa: F403
from proa.tensor.logic import *  # noqa: F403
from proa.tensor.manipulation import *  # noqa: F403
from proa.tensor.math import *  # noqa: F403
from proa.tensor.parameter import Parameter
from proa.tensor.printing import set_printoptions
from proa.tensor.quantiles import *  # noqa: F403
from proa.tensor.random import *  # noqa: F403
from proa.tensor.reduction import *  # noqa: F403
from proa.tensor.search import *  # noqa: F403

if _typing.TYPE_CHECKING:
    from proa import amp as amp
    from proa import array_api as array_api
    from proa import autograd as autograd
    from proa import callbacks as callbacks
    from proa import compat as compat
    from proa import device as device
    from proa import distributed as distributed
    from proa import distribution as distribution
    from proa import errors as errors
    from proa import fft as fft
    from proa import framework as framework
    from proa import geometric as geometric
    from proa import hapi as hapi
    from proa import hub as hub
    from proa import incubate as incubate
    from proa import interop as interop
    from proa import io as io
    from proa import jit as jit
    from proa import linalg as linalg
    from proa import metric as metric
    from proa import migrate as migrate
    from proa import nn as nn
    from proa import onnx as onnx
    from proa import optimizer as optimizer
    from proa import profiler as profiler
    from proa import regularizer as regularizer
    from proa import static as static
    from proa import sysconfig as sysconfig
    from proa import text as text
    from proa import utils as utils
    from proa import version as version
    from proa import vision as vision
    from proa.alias import install_as_paddle as install_as_paddle
    from proa.device import get_cudnn_version as get_cudnn_version
    from proa.device import is_compiled_with_npu as is_compiled_with_npu
    from proa.device import is_compiled_with_rocm as is_compiled_with_rocm
    from proa.device import is_compiled_with_xpu as is_compiled_with_xpu
    from proa.distributed.parallel import DataParallel as DataParallel
    from proa.hapi import Model as Model
    from proa.hapi import flops as flops  # type: ignore[no-redef]
    from proa.hapi import summary as summary  # type: ignore[no-redef]
    from proa.interop.saving import load as load
    from proa.interop.saving import save as save
    from proa.io.batching import batch as batch
    from proa.nn import ParamAttr as ParamAttr
    from proa.nn.create import create_parameter as create_parameter

if _typing.TYPE_CHECKING:
    get_cuda_rng_state = device.cuda.get_rng_state
    set_cuda_rng_state = device.cuda.set_rng_state

#: Public submodules; they are imported when they are first named.
_MODULES = (
    "amp", "array_api", "autograd", "callbacks", "compat", "device", "distributed",
    "distribution", "errors", "fft", "framework", "geometric", "hapi", "hub",
    "incubate", "interop", "io", "jit", "linalg", "metric", "migrate", "nn", "onnx",
    "optimizer", "profiler", "regularizer", "static", "sysconfig", "text", "utils",
    "version", "vision",
)  # fmt: skip
#: Submodules for packages that build on this one, or what another package offers: not
#: part of the public API.
_INTERNAL = ("base", "inference", "ir", "runtime")
#: Names of submodules, and where they are: they are imported when first named.
_LAZY = {
    "DataParallel": ("proa.distributed.parallel", "DataParallel"),
    "Model": ("proa.hapi", "Model"),
    "ParamAttr": ("proa.nn.attr", "ParamAttr"),
    "batch": ("proa.io.batching", "batch"),
    "create_parameter": ("proa.nn.create", "create_parameter"),
    "flops": ("proa.hapi", "flops"),
    "get_cuda_rng_state": ("proa.device.cuda", "get_rng_state"),
    "get_cudnn_version": ("proa.device", "get_cudnn_version"),
    "install_as_paddle": ("proa.alias", "install_as_paddle"),
    "is_compiled_with_npu": ("proa.device", "is_compiled_with_npu"),
    "is_compiled_with_rocm": ("proa.device", "is_compiled_with_rocm"),
    "is_compiled_with_xpu": ("proa.device", "is_compiled_with_xpu"),
    "load": ("proa.interop.saving", "load"),
    "save": ("proa.interop.saving", "save"),
    "set_cuda_rng_state": ("proa.device.cuda", "set_rng_state"),
    "summary": ("proa.hapi", "summary"),
}

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "NPUPlace", "Parameter", "Tensor",
    "XPUPlace", "bfloat16", "bool", "complex64", "complex128",
    "disable_signal_handler", "disable_static", "dtype", "enable_grad",
    "enable_static", "float16", "float32", "float64", "get_default_dtype",
    "get_device", "get_flags", "get_num_threads", "get_rng_state", "grad",
    "in_dynamic_mode", "int8", "int16", "int32", "int64", "is_compiled_with_cuda",
    "is_flush_denormal", "is_grad_enabled", "no_grad", "seed", "set_default_dtype",
    "set_device",
    "set_flags", "set_flush_denormal", "set_grad_enabled", "set_num_threads",
    "set_printoptions", "set_rng_state", "uint8",
    *_FUNCTIONS, *_LAZY, *_MODULES,
]  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES or name in _INTERNAL:
        return _importlib.import_module(f"proa.{name}")
    if name in _LAZY:
        module, member = _LAZY[name]
        value = getattr(_importlib.import_module(module), member)
        globals()[name] = value
        _publish(__name__)
        return globals()[name]
    if name == "__version__":
        from proa.base.version import installed_version

        return installed_version()
    raise AttributeError(f"module 'proa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def _array_namespace(
    self: Tensor, /, *, api_version: str | None = None
) -> _types.ModuleType:
    """`proa.array_api`, the functions of the Python array API standard.

    Raises:
        InvalidArgumentError: If it does not follow that version of the standard.
    """
    namespace = _importlib.import_module("proa.array_api")
    namespace.inspection.require_version(api_version)
    return namespace


setattr(Tensor, "__array_namespace__", _array_namespace)  # noqa: B010  (mypy)

# Where Paddle 2.0's beta versions had them.
_note_moved(
    "proa.io",
    "proa.static",
    (
        "load", "load_inference_model", "load_program_state", "save",
        "save_inference_model", "set_program_state",
    ),
)  # fmt: skip

_publish(__name__)
