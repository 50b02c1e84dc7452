"""Sends traces to a collector by OTLP over HTTP, through OpenTelemetry's library."""

from __future__ import annotations

import logging
import threading
from typing import Any

from proa_serving import __version__
from proa_serving.observe.trace import Trace
from proa_serving.protocol.errors import InvalidRequestError

log = logging.getLogger("proa_serving.observe")
_CLOSE_SECONDS = 2.0


class OtlpExport:
    """A span of each sampled request, with a child for each stage.

    Args:
        endpoint: The collector's URL, such as ``http://localhost:4318/v1/traces``.

    Raises:
        InvalidRequestError: If it is no URL, or OpenTelemetry is not installed.
    """

    wants_all = False

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise InvalidRequestError(
                "otlp", f"must be a URL of http or https, got {endpoint!r:.120}"
            )
        try:
            from opentelemetry import trace as api
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise InvalidRequestError(
                "otlp", f"needs pip install 'proa-serving[otlp]': {error}"
            ) from error
        self._api: Any = api
        resource = Resource.create(
            {"service.name": "proa-serving", "service.version": __version__}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter(endpoint=endpoint)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("proa_serving", __version__)

    def take(self, trace: Trace) -> None:
        api = self._api
        context = None
        if trace.parent is not None:
            caller = api.SpanContext(
                int(trace.parent.trace_id, 16),
                int(trace.parent.span_id, 16),
                is_remote=True,
                trace_flags=api.TraceFlags(int(trace.parent.sampled)),
            )
            context = api.set_span_in_context(api.NonRecordingSpan(caller))
        span = self._tracer.start_span(
            f"infer {trace.model}",
            context=context,
            kind=api.SpanKind.SERVER,
            start_time=trace.wall_ns(trace.began),
            attributes={
                "proa.model": trace.model,
                "proa.version": trace.version,
                "proa.protocol": trace.protocol,
                "proa.request_id": trace.id,
            },
        )
        if trace.status != "ok":
            span.set_status(api.Status(api.StatusCode.ERROR, trace.error))
            span.set_attribute("error.type", trace.status)
        inside = api.set_span_in_context(span)
        for name, begin, end in trace.stages:
            child = self._tracer.start_span(
                name, context=inside, start_time=trace.wall_ns(begin)
            )
            child.end(end_time=trace.wall_ns(end))
        span.end(end_time=trace.wall_ns(trace.ended))

    def close(self) -> None:
        # A collector that does not answer must not hold up the end of the server.
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_CLOSE_SECONDS)
        if sending.is_alive():
            self._exporter.shutdown()  # which ends the attempts to send
            sending.join(_CLOSE_SECONDS)
            log.warning("the last traces were not sent within %g s", _CLOSE_SECONDS)
