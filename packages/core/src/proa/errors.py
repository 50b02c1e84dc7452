"""Typed errors. A message reads ``[where] what must hold, got what``.

Each type also derives from the Python type that fits, so `except ValueError` works.
"""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from types import FrameType

#: How much an error tells beyond its message (FLAGS_call_stack_level): 0 nothing, 1 the
#: user's line, 2 also the C++ stack, and of a failed backward where the op was called.
stack_level = 1

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Error(Exception):
    """Any error that Proa raises on purpose.

    Attributes:
        node: Of an error in a program: the name of the failed node's first output.
    """

    node: str | None = None


class InvalidArgumentError(Error, ValueError):
    """An argument that the contract of a function forbids."""


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


#: Folders whose frames are no users' code.
_own_code: tuple[str, ...] = (_HERE, "<frozen")


def add_own_code(folder: str) -> None:
    """Let errors name no line of a package that is built on this one."""
    global _own_code
    _own_code = (*_own_code, os.path.abspath(folder) + os.sep)


def is_own_code(path: str) -> bool:
    """Whether a file is part of this package or of one that is built on it (or no file
    at all).
    """
    return path.startswith(_own_code)


def line_text(path: str, number: int) -> str:
    """``file:line: code`` of a line of a file."""
    code = linecache.getline(path, number).strip()
    return f"{path}:{number}: {code}" if code else f"{path}:{number}"


def user_place() -> tuple[str, int] | None:
    """File and line of the innermost running frame that is not Proa's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_own_code):
            return path, frame.f_lineno
        frame = frame.f_back
    return None


def user_line() -> str:
    """``file:line: code`` of the innermost running frame that is not Proa's."""
    place = user_place()
    return "" if place is None else line_text(*place)


def line_of(error: BaseException) -> str:
    """``file:line: code`` of the innermost call that is not Proa's, of those that an
    error has come through.
    """
    line = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        if not is_own_code(frame.f_code.co_filename):
            line = line_text(frame.f_code.co_filename, number)
    return line


def annotate(error: BaseException, text: str) -> None:
    """Add a line that is shown below the error's message."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.args = (f"{error.args[0] if error.args else ''}\n{text}", *error.args[1:])


def raised(kind: str, message: str, stack: str = "") -> Error:
    """The error of C++ code, with what FLAGS_call_stack_level asks for."""
    error: Error = globals()[kind](message)
    line = user_line() if stack_level >= 1 else ""
    if line:
        annotate(error, f"at {line}")
    if stack and stack_level >= 2:
        annotate(error, f"C++ calls, the last first:\n{stack}")
    return error
