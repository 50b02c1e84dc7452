"""Static mode: its switch, what describes graphs' inputs, and what runs saved graphs.

Graphs are recorded from functions by `proa.jit.to_static`; what builds them statement
by statement (`Program`, `program_guard`, `data`, …) is not part of this version.
"""

import importlib as _importlib
import typing as _typing

from proa.base.mode import disable_static, enable_static, in_dynamic_mode
from proa.base.public import publish as _publish
from proa.jit.input_spec import InputSpec
from proa.static.executor import Executor
from proa.static.inference_model import load_inference_model, save_inference_model
from proa.static.python_function import py_func
from proa.static.unsupported import refuse as _refuse
from proa.tensor.lod import LoDTensor, create_lod_tensor

#: Submodules that are imported when they are first named.
_MODULES = ("amp", "nn")

__all__ = [
    *_MODULES,
    "Executor",
    "InputSpec",
    "LoDTensor",
    "create_lod_tensor",
    "disable_static",
    "enable_static",
    "in_dynamic_mode",
    "load_inference_model",
    "py_func",
    "save_inference_model",
]


def __dir__() -> list[str]:
    return __all__


_GRAPH_BUILDING = frozenset({
    "CompiledProgram", "Print", "Program", "Variable", "append_backward",
    "data",
    "default_main_program", "default_startup_program", "global_scope", "gradients",
    "name_scope", "program_guard", "scope_guard",
})  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return _importlib.import_module(f"proa.static.{name}")
    if name in _GRAPH_BUILDING:
        _refuse(name)
    raise AttributeError(f"module 'proa.static' has no attribute {name!r}")


_publish(__name__)
