"""Typed errors of the runtime, each also of the fitting Python type.

They are proa_lite's own, since the runtime needs no other package.
"""

from __future__ import annotations


class LiteError(Exception):
    """Any error of the mobile runtime."""


class InvalidArgumentError(LiteError, ValueError):
    """A shape, dtype or file that is not what it must be."""


class OutOfRangeError(LiteError, IndexError):
    """An index outside its axis."""


class UnimplementedError(LiteError, NotImplementedError):
    """An op or dtype that the library was built without."""


class ResourceExhaustedError(LiteError, MemoryError):
    """Memory is exhausted."""


class VersionError(LiteError, RuntimeError):
    """A model or library of another version."""


class NotFoundError(LiteError, FileNotFoundError):
    """No such file, input or output."""


#: By proa_lite_status.
BY_STATUS: dict[int, type[LiteError]] = {
    1: InvalidArgumentError,
    2: OutOfRangeError,
    3: UnimplementedError,
    4: ResourceExhaustedError,
    6: InvalidArgumentError,
    7: VersionError,
    8: NotFoundError,
}
