"""A progress line: what is done, how long it takes, the measures so far."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

_WIDTH = 24


def format_value(value: Any) -> str:
    """A measure in a few characters."""
    if isinstance(value, (list, tuple)):
        return " ".join(format_value(v) for v in value)
    if isinstance(value, int):
        return str(value)
    number = float(value)
    return f"{number:.4f}" if number == 0 or abs(number) >= 1e-3 else f"{number:.3e}"


def format_time(seconds: float) -> str:
    """Seconds as 9s, 1:05 or 2:03:04."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class ProgressBar:
    """One line that is written over as work continues.

    On a terminal the line is redrawn a few times a second; elsewhere (a file, a pipe)
    only the last state of each task is written.

    Args:
        total: Steps in all; None if it is not known.
        stream: Where it is written.
        every_line: Whether each update stays as a line of its own.
    """

    def __init__(
        self,
        total: int | None,
        stream: TextIO | None = None,
        every_line: bool = False,
    ) -> None:
        self._total, self._stream = total, stream or sys.stdout
        self._every_line = every_line
        self._live = not every_line and self._stream.isatty()
        self._start = time.monotonic()
        self._drawn = 0.0

    def line(self, step: int, values: Iterable[tuple[str, Any]]) -> str:
        """The text for a step."""
        elapsed = time.monotonic() - self._start
        rate = elapsed / step if step else 0.0
        measures = " - ".join(f"{k}: {format_value(v)}" for k, v in values)
        if self._total:
            share = min(step / self._total, 1.0)
            full = int(share * _WIDTH)
            bar = "━" * full + "╌" * (_WIDTH - full)
            width = len(str(self._total))
            head = f"{step:>{width}}/{self._total} {bar}"
        else:
            head = f"step {step}"
        pace = f"{rate * 1e3:.0f}ms/step" if rate < 1 else f"{rate:.1f}s/step"
        if self._total and step < self._total:
            clock = f"eta {format_time(rate * (self._total - step))}"
        else:
            clock = format_time(elapsed)
        parts = [head, clock, pace, measures]
        return " - ".join(p for p in parts if p)

    def update(self, step: int, values: Iterable[tuple[str, Any]]) -> None:
        """Show a step, if it is time to."""
        last = self._total is not None and step >= self._total
        if self._every_line:
            self._stream.write(self.line(step, values) + "\n")
            self._stream.flush()
            return
        now = time.monotonic()
        if not self._live or (not last and now - self._drawn < 0.1):
            return
        self._drawn = now
        columns = shutil.get_terminal_size().columns
        text = self.line(step, values)[: max(columns - 1, 20)]
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()

    def finish(self, step: int, values: Iterable[tuple[str, Any]]) -> None:
        """Leave the last state as a line."""
        if self._every_line:
            return
        clear = "\r\x1b[2K" if self._live else ""
        self._stream.write(f"{clear}{self.line(step, values)}\n")
        self._stream.flush()
