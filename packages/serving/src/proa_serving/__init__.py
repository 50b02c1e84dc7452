"""Serve Proa models over the Open Inference Protocol, version 2.

The client is imported when it is first named, so that the command stays light. The
server is in ``proa_serving.app``, the command in ``proa_serving.cli``.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from proa_serving import client as client

__version__ = "0.1.0"

__all__ = ["client"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name == "client":
        import importlib

        return importlib.import_module("proa_serving.client")
    raise AttributeError(f"module 'proa_serving' has no attribute {name!r}")
