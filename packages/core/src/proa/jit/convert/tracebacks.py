"""Errors of functions that are recorded, as the user is to see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from proa import errors
from proa.errors import (
    Error,
    PreconditionNotMetError,
    UnimplementedError,
    annotate,
    is_own_code,
)
from proa.jit.trace import user_line


class Escaped(BaseException):
    """An error that leaves a part while that is recorded, to end the recording.

    No `Exception`: the part may not be what runs, so that no handler of the function
    around it is to act on the error.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def opened(self) -> Exception:
        """The error, with all calls that led to it."""
        last = self.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is not None:
            last.tb_next = self.error.__traceback__
        return self.error.with_traceback(self.__traceback__)


def recorded(part: Callable[[], Any]) -> Any:
    """What a part of a function gives while it is recorded.

    Raises:
        Escaped: If it raises an error.
    """
    try:
        return part()
    except Exception as error:
        raise Escaped(error) from None


def shown_to_users(error: Exception, lost: dict[str, Exception]) -> Exception:
    """The error with its line, and without our calls in the traceback.

    FLAGS_call_stack_level=2 keeps these.

    Args:
        error: What a function raised while it was recorded.
        lost: By name, what tells why a variable has no value.
    """
    made = _explained(error, lost)
    line = user_line(error)
    # The others are told with their line in any case.
    if isinstance(made, Error) and not isinstance(
        made, (PreconditionNotMetError, UnimplementedError)
    ):
        told = (str(made), *getattr(made, "__notes__", ()))
        if line and not any(line in text for text in told):
            annotate(made, f"at {line}")
    if errors.stack_level < 2:
        return made.with_traceback(_of_users(error.__traceback__))
    return made.with_traceback(error.__traceback__)


def _explained(error: Exception, lost: dict[str, Exception]) -> Exception:
    """What tells why a variable has no value, if that is the error and we know."""
    found = re.search(r"variable '(\w+)'", str(error))
    if not isinstance(error, NameError) or found is None or found[1] not in lost:
        return error
    made = lost[found[1]]
    made.__cause__ = error
    return made


def _of_users(first: TracebackType | None) -> TracebackType | None:
    """The calls that are not ours; all if there are no others."""
    calls = []
    at = first
    while at is not None:
        if not is_own_code(at.tb_frame.f_code.co_filename):
            calls.append(at)
        at = at.tb_next
    for one, following in zip(calls, [*calls[1:], None], strict=True):
        one.tb_next = following
    return calls[0] if calls else first
