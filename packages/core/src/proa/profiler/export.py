"""Where traces go: files of a folder, and back from these."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.profiler.result import Event, ProfilerResult

if TYPE_CHECKING:
    from proa.profiler.profiler import Profiler


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
