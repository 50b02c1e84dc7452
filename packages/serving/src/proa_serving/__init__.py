"""Serve Proa models over the Open Inference Protocol, version 2.

The client and ``save_for_serving`` are imported when they are first named, so that the
command stays light. The server is in ``proa_serving.app``, the command in
``proa_serving.cli``.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from proa_serving import client as client
    from proa_serving.saving import save_for_serving as save_for_serving

__version__ = "0.1.0"

__all__ = ["client", "save_for_serving"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    import importlib

    if name == "client":
        return importlib.import_module("proa_serving.client")
    if name == "save_for_serving":
        return importlib.import_module("proa_serving.saving").save_for_serving
    raise AttributeError(f"module 'proa_serving' has no attribute {name!r}")
