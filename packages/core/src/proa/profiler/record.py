"""Events of the user's own."""

from __future__ import annotations

from contextlib import ContextDecorator

from proa import _core
from proa.errors import InvalidTypeError, PreconditionNotMetError
from proa.profiler.schedule import TracerEventType


class RecordEvent(ContextDecorator):
    """A named span of the program: ``with RecordEvent("load"):``, a decorator, or
    `begin` and `end`.

    Args:
        name: What tables and traces call it.
        event_type: Its kind.
    """

    def __init__(
        self,
        name: str,
        event_type: TracerEventType = TracerEventType.PythonUserDefined,
    ) -> None:
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"[RecordEvent] name must be text, got {type(name).__name__}"
            )
        self.name, self.event_type = name, event_type
        self._marks: list[tuple[int, int] | None] = []

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, *args: object) -> None:
        self.end()

    def begin(self) -> None:
        """Begin the span."""
        self._marks.append(_core.event_mark() if _core.events_on() else None)

    def end(self) -> None:
        """End the span that began last.

        Raises:
            PreconditionNotMetError: If none began.
        """
        if not self._marks:
            raise PreconditionNotMetError(
                f"[RecordEvent] expected begin() of {self.name} before end(), got "
                "end() first"
            )
        mark = self._marks.pop()
        if mark is not None:
            _core.add_event(self.name, "user", mark)
