"""What operators note when they are recorded: name scopes and devices."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from proa.errors import InvalidArgumentError


class _Current(threading.local):
    """The blocks that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.scopes: list[str] = []
        self.devices: list[str] = []


_current = _Current()


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """While open, operators that are recorded note this scope, ``/outer/prefix/``.

    Raises:
        InvalidArgumentError: If the prefix is empty.
    """
    if not prefix or not isinstance(prefix, str):
        raise InvalidArgumentError(
            f"[static.name_scope] prefix must be a text, got {prefix!r}"
        )
    _current.scopes.append(prefix)
    try:
        yield
    finally:
        _current.scopes.pop()


def current_scope() -> str:
    """The name scope that statements are in; nothing outside of all."""
    return f"/{'/'.join(_current.scopes)}/" if _current.scopes else ""


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """While open, operators that are recorded note this device.

    There is one device, the CPU: where the GPU is requested, the CPU computes, with a
    warning.

    Args:
        device: "cpu", "gpu" (maybe with a number: "gpu:0"), "all" or None.

    Raises:
        InvalidArgumentError: If it is another.
    """
    kind, _, number = (device or "").partition(":")
    known = kind in ("", "cpu", "gpu", "all")
    if not known or (number and (kind != "gpu" or not number.isdigit())):
        raise InvalidArgumentError(
            "[static.device_guard] device must be 'cpu', 'gpu', 'gpu:N', 'all' or "
            f"None, got {device!r}"
        )
    if kind == "gpu":
        warnings.warn(
            "[static.device_guard] there is no GPU that programs run on; the CPU "
            "computes",
            stacklevel=3,
        )
    _current.devices.append(device or "")
    try:
        yield
    finally:
        _current.devices.pop()


def current_device() -> str:
    """What `device_guard` names; nothing outside of all."""
    return _current.devices[-1] if _current.devices else ""
