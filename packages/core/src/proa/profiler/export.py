"""Traces as files that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.profiler.result import Event, ProfilerResult

if TYPE_CHECKING:
    from proa.profiler.profiler import Profiler


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


def export_chrome_tracing(
    dir_name: str, worker_name: str | None = None
) -> Callable[[Profiler], None]:
    """What a Profiler may call when a trace is ready: writes it into a folder.

    Args:
        dir_name: The folder; made if it is missing.
        worker_name: Begins the file's name; host and process if None.
    """

    def handle(profiler: Profiler) -> None:
        name = worker_name or f"host_{socket.gethostname()}_pid_{os.getpid()}"
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S") + f"_{time.time_ns() % 10**9:09d}"
        profiler.export(
            str(Path(dir_name) / f"{name}_time_{stamp}.paddle_trace.json"), "json"
        )

    return handle


def export_protobuf(dir_name: str, worker_name: str | None = None) -> NoReturn:
    """Paddle's own binary format, which this version does not write.

    Raises:
        UnimplementedError: Always; use `export_chrome_tracing`.
    """
    raise UnimplementedError(
        "[export_protobuf] traces must be written by export_chrome_tracing in this "
        f"version, got {dir_name!r}"
    )


def load_profiler_result(filename: str) -> ProfilerResult:
    """Read a trace that `export_chrome_tracing` or `Profiler.export` wrote.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it is no such trace.
    """
    try:
        text = Path(filename).read_text()
    except FileNotFoundError:
        raise NotFoundError(
            f"[load_profiler_result] expected an existing file, got {filename}"
        ) from None
    try:
        return ProfilerResult([Event(*fields) for fields in json.loads(text)["proa"]])
    except (ValueError, KeyError, TypeError):
        raise InvalidArgumentError(
            f"[load_profiler_result] the file must be a trace of Proa, got {filename}"
        ) from None
