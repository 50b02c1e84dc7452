"""How many requests are traced, in the form of Triton's trace extension.

One setting can be changed while the server runs: of how many requests without a
traceparent one is traced (``trace_rate``), or that none is (``trace_level`` OFF).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proa_serving.observe.trace import Tracer
from proa_serving.protocol.errors import InvalidRequestError, UnsupportedError

_OFF, _ON = "OFF", "TIMESTAMPS"
_DEFAULT_RATE = 1000  # Triton's


def trace_settings(tracer: Tracer | None) -> dict[str, Any]:
    """The settings as they are."""
    share = 0.0 if tracer is None else tracer.share
    rate = round(1 / share) if share else _DEFAULT_RATE
    level = [_ON if share else _OFF]
    return {"trace_level": level, "trace_rate": str(rate), "trace_count": "-1"}


def change_trace_settings(tracer: Tracer | None, held: Mapping[str, Any]) -> None:
    """Take ``trace_level`` and ``trace_rate`` from a request; null resets one.

    Raises:
        UnsupportedError: If the server keeps no traces, or for other settings.
        InvalidRequestError: If a value is none.
    """
    if tracer is None:
        raise UnsupportedError(
            "trace", "server must be started with --timeline, --access-log or --otlp"
        )
    if unknown := held.keys() - {"trace_level", "trace_rate"}:
        raise UnsupportedError(
            "trace",
            f"trace_level and trace_rate can be set, not {sorted(unknown)!s:.120}",
        )
    now = trace_settings(tracer)
    level = held.get("trace_level", now["trace_level"])
    level = [_OFF] if level is None else level
    level = [level] if isinstance(level, str) else level
    if level not in ([_OFF], [_ON]):
        raise InvalidRequestError(
            "trace", f"trace_level must be {_OFF} or {_ON}, got {level!r:.60}"
        )
    rate = held.get("trace_rate", now["trace_rate"])
    rate = str(_DEFAULT_RATE if rate is None else rate)
    if not (rate.isascii() and rate.isdigit() and 0 < int(rate) < 10**9):
        raise InvalidRequestError(
            "trace", f"trace_rate must be a number from 1, got {rate!r:.40}"
        )
    tracer.share = 1 / int(rate) if level == [_ON] else 0.0
