"""What was recorded: events, and how they nest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proa.profiler.trace import write_trace


class Event(NamedTuple):
    """A span of one thread. Times are in nanoseconds of the steady clock."""

    name: str
    kind: str  # op kernel prepare backward phase layer user step
    start: int
    end: int
    thread: int
    bytes_before: int
    bytes_after: int
    detail: str = ""

    @property
    def duration(self) -> int:
        """How long it took."""
        return self.end - self.start

    @property
    def allocated(self) -> int:
        """Bytes that it allocated and kept."""
        return self.bytes_after - self.bytes_before

    @property
    def title(self) -> str:
        """The name, made distinct from others' of the same name."""
        return f"{self.name}.backward" if self.kind == "backward" else self.name


@dataclass
class Span:
    """An event and those inside it."""

    event: Event
    children: list[Span] = field(default_factory=list)

    @property
    def own_time(self) -> int:
        """Nanoseconds that no inner event took."""
        return self.event.duration - sum(c.event.duration for c in self.children)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Span]]:
        """This and all below with their depth, outer ones first."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


class ProfilerResult:
    """The events of a recorded span."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = sorted(events, key=lambda e: (e.thread, e.start, -e.end))

    def threads(self) -> list[int]:
        """The system's numbers of the threads."""
        return list(dict.fromkeys(e.thread for e in self.events))

    def spans(self, thread: int | None = None) -> list[Span]:
        """The outermost events (of one thread), with what they contain."""
        roots: list[Span] = []
        stack: list[Span] = []
        for event in self.events:
            if thread is not None and event.thread != thread:
                continue
            while stack and (
                event.thread != stack[-1].event.thread
                or event.end > stack[-1].event.end
                or event.start >= stack[-1].event.end
            ):
                stack.pop()
            span = Span(event)
            (stack[-1].children if stack else roots).append(span)
            stack.append(span)
        return roots

    def time_range(self) -> tuple[int, int]:
        """First start and last end, in nanoseconds."""
        if not self.events:
            return 0, 0
        return min(e.start for e in self.events), max(e.end for e in self.events)

    def save(self, file_name: str, format: str = "json") -> None:
        """Write a trace; see `Profiler.export`."""
        write_trace(self, file_name, format)
