"""Programs from Python functions: tracing, running as a plan, saving, loading."""

from proa.jit.input_spec import InputSpec
from proa.jit.save_load import TranslatedLayer, export, load, save
from proa.jit.static_function import StaticFunction, not_to_static, to_static
from proa.jit.traced_layer import TracedLayer

__all__ = [
    "InputSpec",
    "StaticFunction",
    "TracedLayer",
    "TranslatedLayer",
    "export",
    "load",
    "not_to_static",
    "save",
    "to_static",
]
