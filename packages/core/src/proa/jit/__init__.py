"""Programs from Python functions: tracing, running as a plan, saving, loading."""

from proa.jit.input_spec import InputSpec
from proa.jit.save_load import TranslatedLayer, export, load, save
from proa.jit.static_function import StaticFunction, not_to_static, to_static

__all__ = [
    "InputSpec",
    "StaticFunction",
    "TranslatedLayer",
    "export",
    "load",
    "not_to_static",
    "save",
    "to_static",
]
