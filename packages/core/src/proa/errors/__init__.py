"""Typed errors. A message reads ``[where] what must hold, got what``.

Each type also derives from the Python type that fits, so `except ValueError` works.
"""

__all__ = [
    "AlreadyExistsError",
    "EndOfDataError",
    "Error",
    "ExchangeError",
    "FatalError",
    "FileError",
    "InvalidArgumentError",
    "InvalidCountError",
    "InvalidTypeError",
    "MissingFileError",
    "NotFoundError",
    "OutOfRangeError",
    "PreconditionNotMetError",
    "ResourceExhaustedError",
    "ShapeError",
    "SymbolicValueError",
    "UnavailableError",
    "UnboundVariableError",
    "UnimplementedError",
    "UnsupportedCpuError",
    "UnsupportedNameError",
    "VersionError",
]


def __dir__() -> list[str]:
    return __all__


class Error(Exception):
    """Any error that Proa raises on purpose.

    Attributes:
        node: For an error in a program: the name of the failed node's first output.
    """

    node: str | None = None


class InvalidArgumentError(Error, ValueError):
    """An argument that the contract of a function forbids."""


class EndOfDataError(Error, EOFError):
    """A loader that a program reads has no batch left; Paddle's EOFException."""


class NotFoundError(Error, RuntimeError):
    """A file, name or key that does not exist."""


class MissingFileError(NotFoundError, InvalidArgumentError, FileNotFoundError):
    """A path at which there is no file."""


class FileError(Error, OSError):
    """A file that the system refuses to read or write: no space, no permission."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


class InvalidTypeError(Error, TypeError):
    """An argument of a kind that the function does not take."""


class OutOfRangeError(InvalidArgumentError, IndexError):
    """An index outside its axis."""


class InvalidCountError(InvalidArgumentError, InvalidTypeError):
    """A count that is no integer of at least 0: a wrong value or a wrong kind."""


class UnboundVariableError(Error, UnboundLocalError):
    """A variable that is read where it may have no value."""


class AlreadyExistsError(Error, RuntimeError):
    """A name that is taken."""


class PreconditionNotMetError(Error, RuntimeError):
    """A call at the wrong time."""


class ResourceExhaustedError(Error, MemoryError):
    """Memory or another bounded resource is exhausted."""


class UnimplementedError(Error, NotImplementedError):
    """Something this build cannot do."""


class SymbolicValueError(PreconditionNotMetError, UnimplementedError):
    """The value of a symbolic tensor was read: it has none while code is recorded."""


class ExchangeError(Error, BufferError):
    """Memory that two libraries cannot share (DLPack)."""


class UnavailableError(Error, RuntimeError):
    """A service, device or optional package that is not there."""


class UnsupportedCpuError(UnavailableError, ImportError):
    """A CPU that the library has no kernels for, so that it cannot be imported."""


class UnsupportedNameError(UnimplementedError, AttributeError):
    """A name that this build does not have, so that `hasattr` says no."""


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
