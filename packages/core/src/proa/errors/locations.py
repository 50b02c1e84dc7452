"""What an error shows beyond its message: the user's line, and the C++ stack."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType

from proa import errors

#: How much an error shows beyond its message (FLAGS_call_stack_level): 0 nothing, 1 the
#: user's line, 2 also the C++ stack, and of a failed backward where the op was called.
stack_level = 1

#: The folder of the package.
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
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
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not is_own_code(path):
            line = line_text(path, trace.tb_lineno)
        trace = trace.tb_next
    return line


def annotate(error: BaseException, text: str) -> None:
    """Add a line that is shown below the error's message."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.args = (f"{error.args[0] if error.args else ''}\n{text}", *error.args[1:])


def raised(kind: str, message: str, stack: str = "") -> errors.Error:
    """The error of C++ code, with what FLAGS_call_stack_level requests."""
    error: errors.Error = getattr(errors, kind)(message)
    line = user_line() if stack_level >= 1 else ""
    if line:
        annotate(error, f"at {line}")
    if stack and stack_level >= 2:
        annotate(error, f"C++ calls, the last first:\n{stack}")
    return error
