"""Proa: tensors, autograd and layers with the API of PaddlePaddle 2.x.

What most programs need is imported here; larger parts (`proa.nn`, `proa.io`, …) are
imported when they are first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from proa import _core
from proa._core import Tensor as Tensor
from proa.base.dtype import DType as dtype
from proa.base.dtype import as_dtype, get_default_dtype, set_default_dtype
from proa.base.place import (
    CPUPlace,
    CUDAPlace,
    get_device,
    is_compiled_with_cuda,
    set_device,
)
from proa.base.random import get_rng_state, seed, set_rng_state
from proa.tensor import FUNCTIONS
from proa.tensor.creation import *  # noqa: F403
from proa.tensor.linalg import *  # noqa: F403
from proa.tensor.logic import *  # noqa: F403
from proa.tensor.manipulation import *  # noqa: F403
from proa.tensor.math import *  # noqa: F403
from proa.tensor.parameter import Parameter
from proa.tensor.printing import set_printoptions
from proa.tensor.random import *  # noqa: F403
from proa.tensor.reduction import *  # noqa: F403
from proa.tensor.saving import load, save
from proa.tensor.search import *  # noqa: F403

if TYPE_CHECKING:
    from proa import (
        autograd,
        hapi,
        io,
        jit,
        metric,
        nn,
        optimizer,
        static,
        vision,
    )
    from proa.autograd import enable_grad, grad, no_grad
    from proa.hapi import Model
    from proa.nn import ParamAttr

bool = as_dtype("bool")
uint8 = as_dtype("uint8")
int8 = as_dtype("int8")
int16 = as_dtype("int16")
int32 = as_dtype("int32")
int64 = as_dtype("int64")
float16 = as_dtype("float16")
bfloat16 = as_dtype("bfloat16")
float32 = as_dtype("float32")
float64 = as_dtype("float64")
complex64 = as_dtype("complex64")
complex128 = as_dtype("complex128")

if TYPE_CHECKING:
    from proa.hapi import summary

set_num_threads = _core.set_num_threads
get_num_threads = _core.get_num_threads

#: Submodules that are imported when they are first named.
_MODULES = frozenset({
    "amp", "autograd", "base", "device", "distributed", "errors", "hapi", "interop",
    "io", "ir", "jit", "linalg", "metric", "nn", "optimizer", "static", "vision",
})  # fmt: skip
#: Name -> where it is: (module, name in it), or (module, None) for the module itself.
_LAZY: dict[str, tuple[str, str | None]] = {
    "Model": ("proa.hapi", "Model"),
    "ParamAttr": ("proa.nn.attr", "ParamAttr"),
    "callbacks": ("proa.hapi.callbacks", None),
    "create_parameter": ("proa.nn.create", "create_parameter"),
    "disable_static": ("proa.static", "disable_static"),
    "enable_grad": ("proa.autograd", "enable_grad"),
    "enable_static": ("proa.static", "enable_static"),
    "grad": ("proa.autograd", "grad"),
    "in_dynamic_mode": ("proa.static", "in_dynamic_mode"),
    "is_grad_enabled": ("proa.autograd", "is_grad_enabled"),
    "no_grad": ("proa.autograd", "no_grad"),
    "regularizer": ("proa.optimizer.regularizer", None),
    "set_grad_enabled": ("proa.autograd", "set_grad_enabled"),
    "summary": ("proa.hapi", "summary"),
}

__all__ = [
    "CPUPlace", "CUDAPlace", "Model", "ParamAttr", "Parameter", "Tensor", "autograd",
    "bfloat16", "bool", "complex128", "complex64", "dtype", "enable_grad", "float16",
    "float32", "float64", "get_default_dtype", "get_device", "get_num_threads",
    "get_rng_state", "grad", "hapi", "int16", "int32", "int64", "int8", "io",
    "is_compiled_with_cuda", "jit", "load", "metric", "nn", "no_grad", "optimizer",
    "save", "seed", "set_default_dtype", "set_device", "set_num_threads",
    "set_printoptions", "set_rng_state", "static", "summary", "uint8", "vision",
    *FUNCTIONS,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"proa.{name}")
    if name in _LAZY:
        module, member = _LAZY[name]
        value: Any = importlib.import_module(module)
        value = value if member is None else getattr(value, member)
        globals()[name] = value
        return value
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("proa")
        except PackageNotFoundError:
            return "0+source"
    raise AttributeError(f"module 'proa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_LAZY})
