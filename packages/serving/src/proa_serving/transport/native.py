"""The native transport: whether it was built, and whether a server is to use it."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from proa_serving.config import ServerConfig
from proa_serving.protocol.errors import InvalidRequestError


def native_transport(config: ServerConfig) -> ModuleType | None:
    """The module that reads and writes sockets; None where asyncio does.

    Raises:
        InvalidRequestError: If it is wanted and was not built.
    """
    if config.engine == "python":
        return None
    found = _built()
    if found is None and config.engine == "native":
        raise InvalidRequestError(
            "config",
            "engine native must be built, which takes Linux and a C++ compiler when "
            "proa-serving is installed; expected python or auto",
        )
    return found


@functools.cache
def _built() -> ModuleType | None:
    try:
        return importlib.import_module("proa_serving._native")
    except ImportError:
        return None
