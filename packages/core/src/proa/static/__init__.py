"""Static mode: programs that statements build, and what runs them and saved graphs."""

import importlib as _importlib
import typing as _typing

from proa.base.mode import disable_static, enable_static, in_dynamic_mode
from proa.base.public import publish as _publish
from proa.jit.input_spec import InputSpec
from proa.static.backward import append_backward, gradients
from proa.static.compiled_program import (
    BuildStrategy,
    CompiledProgram,
    ExecutionStrategy,
)
from proa.static.executor import Executor
from proa.static.exporting import normalize_program
from proa.static.inference_model import load_inference_model, save_inference_model
from proa.static.ipu import (
    IpuCompiledProgram,
    IpuStrategy,
    ipu_shard_guard,
    set_ipu_shard,
)
from proa.static.marks import device_guard, name_scope
from proa.static.metrics import accuracy, auc, ctr_metric_bundle
from proa.static.mode import (
    default_main_program,
    default_startup_program,
    program_guard,
)
from proa.static.moving_average import ExponentialMovingAverage
from proa.static.parallel_executor import ParallelExecutor
from proa.static.places import cpu_places, cuda_places, xpu_places
from proa.static.printing import Print
from proa.static.program import Program
from proa.static.python_function import py_func
from proa.static.saving import (
    deserialize_persistables,
    deserialize_program,
    load,
    load_from_file,
    load_program_state,
    save,
    save_to_file,
    serialize_persistables,
    serialize_program,
    set_program_state,
)
from proa.static.scope import Scope, global_scope, scope_guard
from proa.static.state import create_global_var, create_parameter, data
from proa.static.variable import Variable
from proa.static.weight_norm import WeightNormParamAttr
from proa.tensor.lod import LoDTensor, create_lod_tensor

if _typing.TYPE_CHECKING:
    from proa.static import amp as amp
    from proa.static import nn as nn

#: Submodules that are imported when they are first named.
_MODULES = ("amp", "nn")

__all__ = [
    *_MODULES,
    "BuildStrategy",
    "CompiledProgram",
    "ExecutionStrategy",
    "Executor",
    "ExponentialMovingAverage",
    "InputSpec",
    "IpuCompiledProgram",
    "IpuStrategy",
    "LoDTensor",
    "ParallelExecutor",
    "Print",
    "Program",
    "Scope",
    "Variable",
    "WeightNormParamAttr",
    "accuracy",
    "append_backward",
    "auc",
    "cpu_places",
    "create_global_var",
    "create_lod_tensor",
    "create_parameter",
    "ctr_metric_bundle",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "deserialize_persistables",
    "deserialize_program",
    "device_guard",
    "disable_static",
    "enable_static",
    "global_scope",
    "gradients",
    "in_dynamic_mode",
    "ipu_shard_guard",
    "load",
    "load_from_file",
    "load_inference_model",
    "load_program_state",
    "name_scope",
    "normalize_program",
    "program_guard",
    "py_func",
    "save",
    "save_inference_model",
    "save_to_file",
    "scope_guard",
    "serialize_persistables",
    "serialize_program",
    "set_ipu_shard",
    "set_program_state",
    "xpu_places",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return _importlib.import_module(f"proa.static.{name}")
    raise AttributeError(f"module 'proa.static' has no attribute {name!r}")


_publish(__name__)
