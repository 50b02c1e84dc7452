"""The predictor as `paddle.inference`: what the package `proa_inference` offers.

    import proa as paddle
    config = paddle.inference.Config("net.proa")

Needs the package proa-inference, which is imported when a name is first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def _package() -> ModuleType:
    # By name: this package is built and installed without that one.
    try:
        return importlib.import_module("proa_inference")
    except ModuleNotFoundError as error:
        if error.name != "proa_inference":
            raise
        raise ModuleNotFoundError(
            "[proa.inference] expected the package proa-inference: pip install "
            "proa-inference, got none",
            name=error.name,
        ) from None


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'proa.inference' has no attribute {name!r}")
    return getattr(_package(), name)


def __dir__() -> list[str]:
    return dir(_package())
