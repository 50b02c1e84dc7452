"""Writes a line of JSON for each inference request."""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from proa_serving.observe.trace import Trace
from proa_serving.protocol.errors import InvalidRequestError

log = logging.getLogger("proa_serving.observe")
# Lines that may wait for a slow disk; further ones are dropped, and counted.
_MAX_WAITING = 10_000


class AccessLog:
    """Lines with time, client, protocol, model, version, id, status and milliseconds.

    They are written by a thread of its own, so that a slow disk holds no request.

    Args:
        path: Appended to; ``-`` is the standard error stream.

    Raises:
        InvalidRequestError: If the file cannot be opened.
    """

    wants_all = True

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = (
                sys.stderr if str(path) == "-" else path.open("a", encoding="utf-8")
            )
        except OSError as error:
            raise InvalidRequestError(
                "access log", f"the file cannot be written: {error}"
            ) from error
        self._waiting: queue.SimpleQueue[Trace | None] = queue.SimpleQueue()
        self._dropped = 0
        self._thread = threading.Thread(
            target=self._write, name="proa-serve-log", daemon=True
        )
        self._thread.start()

    def take(self, trace: Trace) -> None:
        if self._waiting.qsize() >= _MAX_WAITING:
            self._dropped += 1
        else:
            self._waiting.put(trace)

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()
        if self._dropped:
            log.warning("the access log lacks %d lines", self._dropped)
        if self._file is not sys.stderr:
            self._file.close()

    def _write(self) -> None:
        while (trace := self._waiting.get()) is not None:
            try:
                self._file.write(_line(trace))
                if self._waiting.empty():
                    self._file.flush()
            except OSError as error:
                self._dropped += 1
                log.error("the access log cannot be written: %s", error)


def _line(trace: Trace) -> str:
    when = datetime.fromtimestamp(trace.wall, timezone.utc)
    held: dict[str, object] = {
        "time": when.isoformat(timespec="milliseconds"),
        "client": trace.client,
        "protocol": trace.protocol,
        "model": trace.model,
        "version": trace.version,
        "id": trace.id,
        "status": trace.status,
        "ms": round((trace.ended - trace.began) * 1e3, 3),
    }
    for name, begin, end in trace.stages:
        key = f"{name}_ms"
        held[key] = round(float(str(held.get(key, 0.0))) + (end - begin) * 1e3, 3)
    if trace.parent is not None:
        held["trace_id"] = trace.parent.trace_id
    if trace.error:
        held["error"] = trace.error
    return json.dumps(held, ensure_ascii=False) + "\n"
