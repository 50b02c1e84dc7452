"""Traces as files that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proa.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from proa.profiler.result import Event, ProfilerResult


def _complete(event: Event, process: int) -> dict[str, Any]:
    args: dict[str, Any] = {"allocated bytes": event.allocated}
    if event.detail:
        args["inputs"] = event.detail
    return {
        "name": event.title,
        "cat": event.kind,
        "ph": "X",
        "ts": event.start / 1e3,
        "dur": event.duration / 1e3,
        "pid": process,
        "tid": event.thread,
        "args": args,
    }


def _memory(events: list[Event], process: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    last = -1
    for time_of, size in sorted(
        p for e in events for p in ((e.start, e.bytes_before), (e.end, e.bytes_after))
    ):
        if size != last:
            found.append({
                "name": "allocated", "ph": "C", "ts": time_of / 1e3, "pid": process,
                "args": {"bytes": size},
            })  # fmt: skip
            last = size
    return found


def to_trace(result: ProfilerResult) -> dict[str, Any]:
    """The trace as JSON's objects, in the Trace Event Format."""
    process = os.getpid()
    named: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": process, "args": {"name": "proa"}}
    ]
    for i, thread in enumerate(result.threads()):
        named.append({
            "name": "thread_name", "ph": "M", "pid": process, "tid": thread,
            "args": {"name": f"thread {i}"},
        })  # fmt: skip
    events = [_complete(e, process) for e in result.events]
    return {
        "traceEvents": [*named, *events, *_memory(result.events, process)],
        "displayTimeUnit": "ms",
        "proa": [list(e) for e in result.events],
    }


def write_trace(result: ProfilerResult, path: str, format: str = "json") -> None:
    """Write the trace.

    Raises:
        UnimplementedError: For format "pb".
        InvalidArgumentError: For another that is not "json".
    """
    if format == "pb":
        raise UnimplementedError(
            "[Profiler.export] format must be 'json' in this version, got 'pb'"
        )
    if format != "json":
        raise InvalidArgumentError(
            f"[Profiler.export] format must be 'json', got {format!r}"
        )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(to_trace(result)))
