"""Programs from Python functions: tracing, running as a plan, saving, loading."""

from proa.jit.input_spec import InputSpec
from proa.jit.log import set_code_level, set_verbosity
from proa.jit.save_load import export, load, save
from proa.jit.static_function import StaticFunction, not_to_static, to_static
from proa.jit.switch import ProgramTranslator, enable_to_static
from proa.jit.traced_layer import TracedLayer
from proa.jit.translated_layer import TranslatedLayer

__all__ = [
    "InputSpec",
    "ProgramTranslator",
    "StaticFunction",
    "TracedLayer",
    "TranslatedLayer",
    "enable_to_static",
    "export",
    "load",
    "not_to_static",
    "save",
    "set_code_level",
    "set_verbosity",
    "to_static",
]


def __dir__() -> list[str]:
    return __all__
