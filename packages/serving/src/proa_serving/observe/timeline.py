"""Keeps the last traces as a timeline for Chrome's and Perfetto's viewers."""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path
from typing import Any

from proa_serving.observe.trace import Trace
from proa_serving.protocol.errors import InvalidRequestError

log = logging.getLogger("proa_serving.observe")


class Timeline:
    """The last requests and their stages, in the Trace Event Format.

    Each model is a process, and requests that overlap are on different threads of it.

    Args:
        path: Written at the end; None for nothing.
        limit: Requests that are kept.

    Raises:
        InvalidRequestError: If the file cannot be written.
    """

    wants_all = False

    def __init__(self, path: Path | None, limit: int = 10_000) -> None:
        self._path = path
        if path is not None:
            try:  # now, and not after hours
                path.open("a").close()
            except OSError as error:
                raise InvalidRequestError(
                    "timeline", f"the file cannot be written: {error}"
                ) from error
        self._traces: deque[Trace] = deque(maxlen=limit)

    def take(self, trace: Trace) -> None:
        self._traces.append(trace)

    def to_json(self) -> dict[str, Any]:
        """Load it at chrome://tracing or ui.perfetto.dev."""
        traces = sorted(self._traces, key=lambda trace: trace.began)
        events: list[dict[str, Any]] = []
        models: dict[str, int] = {}
        lanes: dict[str, list[float]] = {}  # when the last request of each ends
        for trace in traces:
            process = models.setdefault(trace.model, len(models) + 1)
            ends = lanes.setdefault(trace.model, [])
            lane = next((at for at, end in enumerate(ends) if end <= trace.began), None)
            if lane is None:
                lane = len(ends)
                ends.append(0.0)
            ends[lane] = trace.ended
            said = {
                "version": trace.version,
                "protocol": trace.protocol,
                "status": trace.status,
                "id": trace.id,
            }
            if trace.parent is not None:
                said["trace_id"] = trace.parent.trace_id
            spans = [("request", trace.began, trace.ended), *trace.stages]
            for name, begin, end in spans:
                events.append(
                    {
                        "name": name,
                        "ph": "X",
                        "ts": trace.wall_ns(begin) / 1e3,
                        "dur": max(0.0, end - begin) * 1e6,
                        "pid": process,
                        "tid": lane,
                        **({"args": said} if name == "request" else {}),
                    }
                )
        events += [
            {"name": "process_name", "ph": "M", "pid": process, "args": {"name": model}}
            for model, process in models.items()
        ]
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def close(self) -> None:
        if self._path is None:
            return
        try:
            self._path.write_text(json.dumps(self.to_json()), encoding="utf-8")
        except OSError as error:
            log.error("the timeline cannot be written: %s", error)
