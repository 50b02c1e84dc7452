"""Errors of functions that are recorded, as the user is to see them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from proa.errors import Error, locations
from proa.errors.locations import annotate, is_own_code


class BodyError(BaseException):
    """An error raised in the body of a branch or loop, on its way out of the recording.

    No `Exception`: the body may not be what runs, so that no handler of the function
    around it is to act on the error.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def unwrap(self) -> Exception:
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
        BodyError: If it raises an error.
    """
    try:
        return part()
    except Exception as error:
        raise BodyError(error) from None


def shown_to_users(
    error: Exception, lost: dict[str, Exception], layers: Sequence[Any] = ()
) -> Exception:
    """The error with the layer and the line that it comes from, and without our calls
    in the traceback.

    FLAGS_call_stack_level=2 keeps these.

    Args:
        error: What a function raised while it was recorded.
        lost: By name, the error that explains why a variable has no value.
        layers: Those that were computing when it was raised, the outermost first.
    """
    result = _explained(error, lost)
    if isinstance(result, Error) or hasattr(result, "add_note"):
        # Tracebacks show the lines of Python's own errors.
        line = _line_text(error) if isinstance(result, Error) else ""
        for text in (_layer_text(layers), line):
            texts = (str(result), *getattr(result, "__notes__", ()))
            if text and not any(text in known for known in texts):
                annotate(result, text)
    if locations.stack_level < 2:
        return result.with_traceback(_of_users(error.__traceback__))
    return result.with_traceback(error.__traceback__)


def _line_text(error: Exception) -> str:
    """The user's line: that of the function that was recorded, or, where that has none,
    as with a Layer of ours, the one that requested the recording.
    """
    line = locations.line_of(error) or locations.user_line()
    return f"at {line}" if line else ""


def _layer_text(layers: Sequence[Any]) -> str:
    """``in layer 'features.0 (Conv2D)'``: the path of the last of them in the first."""
    if not layers:
        return ""
    path = []
    for parent, child in itertools.pairwise(layers):
        names = (name for name, part in parent.named_sublayers() if part is child)
        path.append(next(names, ""))
    kind = type(layers[-1]).__name__
    where = ".".join(filter(None, path))
    return f"in layer '{where} ({kind})'" if where else f"in layer '{kind}'"


def _explained(error: Exception, lost: dict[str, Exception]) -> Exception:
    """The error that explains why a variable has no value, if that is known."""
    found = re.search(r"variable '(\w+)'", str(error))
    if not isinstance(error, NameError) or found is None or found[1] not in lost:
        return error
    result = lost[found[1]]
    result.__cause__ = error
    return result


def _of_users(first: TracebackType | None) -> TracebackType | None:
    """The calls that are not ours; None if there are no others."""
    users: TracebackType | None = None
    for call in reversed(list(_calls(first))):
        if not is_own_code(call.tb_frame.f_code.co_filename):
            call.tb_next, users = users, call
    return users


def _calls(first: TracebackType | None) -> Iterator[TracebackType]:
    while first is not None:
        yield first
        first = first.tb_next
