"""Typed errors. A message reads ``[where] what must hold, got what``.

Each type also derives from the Python type that fits, so `except ValueError` works.
"""

from __future__ import annotations


class Error(Exception):
    """Any error that Proa raises on purpose."""


class InvalidArgumentError(Error, ValueError):
    """An argument that the contract of a function forbids."""


class NotFoundError(Error, RuntimeError):
    """A file, name or key that does not exist."""


class OutOfRangeError(Error, IndexError):
    """An index outside its axis."""


class AlreadyExistsError(Error, RuntimeError):
    """A name that is taken."""


class PreconditionNotMetError(Error, RuntimeError):
    """A call at the wrong time."""


class ResourceExhaustedError(Error, MemoryError):
    """Memory or another bounded resource is spent."""


class UnimplementedError(Error, NotImplementedError):
    """Something this build cannot do."""


class UnavailableError(Error, RuntimeError):
    """A service, device or optional package that is not there."""


class VersionError(Error, RuntimeError):
    """A file or library of a version that this one cannot use."""


class FatalError(Error, SystemError):
    """A bug of Proa's own."""


class ShapeError(InvalidArgumentError):
    """A shape that is not what it must be."""

    def __init__(self, where: str, must: str = "", got: object = None) -> None:
        if must and got is not None:
            got = tuple(got) if isinstance(got, (list, tuple)) else got
            where = f"[{where}] {must}, got {got}"
        super().__init__(where)
