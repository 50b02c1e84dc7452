"""What REST requests are answered with, path by path."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import httptools

from proa_serving.http.answers import FastAnswer
from proa_serving.http.body import IN_PLACE, Buffer, inflate
from proa_serving.http.cors import PREFLIGHT, cors_headers, is_preflight
from proa_serving.http.fast_path import HttpFastPath, encode_reply
from proa_serving.http.messages import Reply, Request
from proa_serving.http.routes import Route, find_route
from proa_serving.http.v1 import V1Actions
from proa_serving.metrics import CONTENT_TYPE, Metrics
from proa_serving.models.service import InferenceService
from proa_serving.observe.page import PAGE
from proa_serving.observe.trace_settings import change_trace_settings, trace_settings
from proa_serving.protocol.errors import (
    InvalidRequestError,
    NotFoundError,
    ServingError,
    TooLargeError,
    UnavailableError,
)
from proa_serving.protocol.messages import InferRequest, InferResponse
from proa_serving.protocol.rest import (
    HEADER_LENGTH,
    NO_ID,
    decode_request,
    dump_json,
    is_raw,
    parse_json,
    raw_places,
    wants_raw,
    without_id,
)
from proa_serving.security.guard import Guard

log = logging.getLogger("proa_serving.http")
Result = TypeVar("Result")
Answer = Reply | Coroutine[Any, Any, Reply]
_LENGTH = HEADER_LENGTH.lower().encode()
# Above this many bytes or elements, coding moves to a thread, off the event loop.
_BIG = IN_PLACE
# Bytes of Python objects that a byte of JSON may become, about.
_JSON_COST = 8
# Threads that code JSON; more would only compete for Python's lock.
_CODERS = 2
_MAX_FAST_PATHS = 256
# Method, target, JSON without its id, and bytes of all.
_Key = tuple[bytes, bytes, bytes, int]
# Answered without a key, as orchestrators have none.
_HEALTH = (b"/v2/health/live", b"/v2/health/ready")


class HttpApp:
    """Answers the requests of one server.

    Args:
        service: What does the work.
        guard: Lets requests in.
        is_admin: Whether models may be loaded and unloaded.
    """

    def __init__(
        self, service: InferenceService, guard: Guard, *, is_admin: bool = False
    ) -> None:
        self._service = service
        self._config = service.config
        self._guard = guard
        self._controls = is_admin or self._config.model_control
        self._fast_paths: dict[_Key, HttpFastPath] = {}
        self._coders = ThreadPoolExecutor(_CODERS, "proa-serve-json")
        self._actions: dict[str, Callable[[Route, Request], Answer]] = {
            "server_metadata": self._server_metadata,
            "live": self._live,
            "ready": self._ready,
            "model_metadata": self._model_metadata,
            "model_ready": self._model_ready,
            "infer": self._infer,
            "index": self._index,
            "load": self._load,
            "unload": self._unload,
            "metrics": self._metrics,
            "statistics": self._statistics,
            "model_config": self._model_config,
            "shadow": self._shadow,
            "status": self._status,
            "timeline": self._timeline,
            "trace_setting": self._trace_setting,
            "memory_status": self._memory_status,
            "memory_register": self._memory_register,
            "memory_unregister": self._memory_unregister,
            **V1Actions(service, self._decoded, self._coded).by_name,
        }

    def close(self) -> None:
        """End its threads, once nothing is in flight."""
        self._coders.shutdown(wait=False, cancel_futures=True)

    def admit(self, request: Request, client: str) -> None:
        """Refuse a request by its head.

        Raises:
            UnauthenticatedError: If it lacks an API key.
            RateLimitedError: If the client sent too many.
        """
        request.client = client
        if self._guard.is_open or request.target in _HEALTH:
            return
        headers = request.headers
        if request.method == b"OPTIONS" and b"origin" in headers:
            return  # A web page's preflight request has no key.
        request.caller = self._guard.admit(
            headers.get(b"authorization", b""), headers.get(b"x-api-key", b""), client
        )

    def refused(self, request: Request, error: ServingError) -> None:
        """Count a request that is answered by its connection."""
        try:
            model = _route(b"POST", request.target).model
        except ServingError:  # of no path, or of its head alone
            model = ""
        self._count_refusal(request, error, model)

    def _count_refusal(self, request: Request, error: ServingError, model: str) -> None:
        self._service.count_refusal(
            "http", error.reason, str(error), model, request.sender
        )

    def cors(self, origin: bytes) -> str:
        """The headers that let a web page of ``origin`` read an answer, if it may."""
        return cors_headers(origin, self._config.cors_origins)

    def answer(self, request: Request) -> Answer:
        """The answer, or what will become it where that takes its time."""
        if (
            request.method == b"OPTIONS"
            and self._config.cors_origins
            and is_preflight(request.headers)
        ):
            return Reply([], headers=PREFLIGHT)
        try:
            route = _route(request.method, request.target)
            answer = self._actions[route.action](route, request)
        except Exception as error:
            return Reply.of_failure(error)
        return answer if isinstance(answer, Reply) else self._guarded(answer)

    async def _guarded(self, answer: Coroutine[Any, Any, Reply]) -> Reply:
        try:
            return await answer
        except asyncio.CancelledError:
            if not self._service.draining:
                raise
            return Reply.of_error(
                UnavailableError("server", "is shutting down; the request was cut")
            )
        except Exception as error:
            return Reply.of_failure(error)

    def known_path(self, request: Request) -> tuple[bytes, FastAnswer] | None:
        """As :meth:`Answers.known_path`."""
        if (split := self._split(request)) is None:
            return None
        found = self._fast_paths.get(split[0])
        return (split[0][2], found) if found and found.path.is_current() else None

    def _split(self, request: Request) -> tuple[_Key, bytes] | None:
        """What others like it share, and its id; None where that must not matter."""
        headers = request.headers
        said = headers.get(_LENGTH, b"")
        if not (self._guard.is_open and said.isdigit() and len(said) < 5):
            return None
        if headers.keys() & {b"origin", b"content-encoding"}:
            return None
        text, given = without_id(bytes(request.data()[: int(said)]))
        return (request.method, request.target, text, len(request.data())), given

    def fast_path(self, request: Request) -> tuple[bytes, FastAnswer] | None:
        """As :meth:`Answers.fast_path`: of inference with raw tensors, for anybody."""
        if (split := self._split(request)) is None:
            return None
        key, given = split
        text, found = key[2], self._fast_paths.get(key)
        if found is None or not found.path.is_current():
            try:
                found = self._new_fast_path(request, text, given)
            except ServingError:  # That was the answer.
                return None
            if found is None:
                return None
            if len(self._fast_paths) >= _MAX_FAST_PATHS:
                self._fast_paths.clear()
            self._fast_paths[key] = found
        return text, found

    def _new_fast_path(
        self, request: Request, text: bytes, given: bytes
    ) -> HttpFastPath | None:
        body = request.data()
        route = _route(request.method, request.target)
        if route.action != "infer":
            return None
        if given:  # Is another value of the same id the same request?
            length = str(len(text))
            whole = decode_request(route.model, route.version, body, length)
            if whole.id.encode() != given:
                return None
            raw = body[len(text) :]
            text = text.replace(NO_ID * len(given), b"", 1)
            body = text + bytes(raw)
        size = len(text)
        decoded = decode_request(route.model, route.version, body, str(size))
        places = raw_places(body, size)
        if places is None or not wants_raw(decoded):
            return None
        path = self._service.fast_path(decoded, places, "http")
        return None if path is None else HttpFastPath(path, decoded, given)

    def _infer(self, route: Route, request: Request) -> Answer:
        if self._service.draining:
            error = UnavailableError("server", "is shutting down")
            self._count_refusal(request, error, route.model)
            raise error
        body, headers = request.data(), request.headers
        said = headers.get(_LENGTH)
        text = None if said is None else said.decode("latin-1")
        # Text is slow to decode and raw bytes are not.
        size = _text_length(text) or len(body)
        if size > _BIG or b"content-encoding" in headers:
            return self._infer_slowly(route, request, text)
        arrived = time.monotonic() if self._service.tracer is not None else 0.0
        try:
            decoded = decode_request(route.model, route.version, body, text)
        except ServingError as error:
            self._count_refusal(request, error, route.model)
            raise
        decoded.headers, decoded.arrived = headers, arrived
        decoded.client = request.sender
        return self._run(decoded)

    async def _infer_slowly(
        self, route: Route, request: Request, text: str | None
    ) -> Reply:
        arrived = time.monotonic()
        decoded = await self._decoded(
            request,
            lambda body: decode_request(route.model, route.version, body, text),
            text,
        )
        decoded.headers, decoded.arrived = request.headers, arrived
        decoded.client = request.sender
        answer = self._run(decoded)
        return answer if isinstance(answer, Reply) else await answer

    async def _decoded(
        self, request: Request, decode: Callable[[Buffer], Result], text: str | None
    ) -> Result:
        """What ``decode`` makes of the body, whose JSON is of ``text`` bytes or all."""
        try:
            body = await self._inflated(request)
            size = min(_text_length(text) or len(body), len(body))
            limit = self._config.max_json_bytes
            if size > limit:
                raise TooLargeError("request", f"JSON must be at most {limit} bytes")
            charged = request.charged
            self._service.budget.take(_JSON_COST * size)
            request.charged = charged + _JSON_COST * size
            if size <= _BIG and len(body) <= _BIG:
                return decode(body)
            decoded: Result = await self._coded(decode, body)
        except ServingError as error:
            self.refused(request, error)
            raise
        return decoded

    async def _inflated(self, request: Request) -> Buffer:
        body = request.data()
        encoding = request.headers.get(b"content-encoding", b"").strip().lower()
        if encoding in (b"", b"identity"):
            return body
        limit = self._config.max_request_bytes
        # Zeros become a thousand times as many; what is not needed is released.
        bound = min(limit, 1032 * len(body))
        self._service.budget.take(bound)
        try:
            data: Buffer = await self._coded(inflate, body, encoding, limit)
        except BaseException:
            self._service.budget.release(bound)
            raise
        self._service.budget.release(bound - len(data))
        request.charged += len(data)
        return data

    async def _coded(self, function: Callable[..., Any], *given: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._coders, function, *given)

    def _run(self, request: InferRequest) -> Answer:
        answer = self._service.infer(request, "http")
        if not isinstance(answer, InferResponse):
            return self._wait(answer, request)
        if _text_size(answer, request) > _BIG:
            return self._encode_slowly(answer, request)
        return encode_reply(answer, request)

    async def _wait(
        self, answer: Coroutine[Any, Any, InferResponse], request: InferRequest
    ) -> Reply:
        response = await answer
        if _text_size(response, request) > _BIG:
            return await self._encode_slowly(response, request)
        return encode_reply(response, request)

    async def _encode_slowly(
        self, response: InferResponse, request: InferRequest
    ) -> Reply:
        reply: Reply = await self._coded(encode_reply, response, request)
        return reply

    def _server_metadata(self, *_: object) -> Reply:
        return Reply.of_json(asdict(self._service.metadata()))

    def _live(self, *_: object) -> Reply:
        return Reply.of_json({"live": True})

    def _ready(self, *_: object) -> Reply:
        ready = self._service.ready()
        return Reply.of_json({"ready": ready}, 200 if ready else 503)

    def _model_ready(self, route: Route, *_: object) -> Reply:
        ready = self._service.model_ready(route.model, route.version)
        return Reply.of_json(
            {"name": route.model, "ready": ready}, 200 if ready else 503
        )

    def _model_metadata(self, route: Route, *_: object) -> Reply:
        held = self._service.model_metadata(route.model, route.version)
        return Reply.of_json(
            {
                "name": held.name,
                "versions": list(held.versions),
                "platform": held.platform,
                "inputs": [spec.to_json() for spec in held.inputs],
                "outputs": [spec.to_json() for spec in held.outputs],
            }
        )

    async def _body(self, request: Request, where: str) -> dict[str, Any]:
        """The JSON object of a request that is not large."""
        body = await self._inflated(request)
        if len(body) > _BIG:
            raise TooLargeError(where, f"body must be at most {_BIG} bytes")
        return parse_json(body, where) if body else {}

    def _memory_status(self, route: Route, _: Request) -> Reply:
        return Reply.of_json(
            [
                {
                    "name": held.name,
                    "key": held.key,
                    "offset": held.offset,
                    "byte_size": held.byte_size,
                }
                for held in self._service.shared_memory().status(route.model)
            ]
        )

    async def _memory_register(self, route: Route, request: Request) -> Reply:
        held = await self._body(request, "register")
        key, offset, size = (
            held.get("key"),
            held.get("offset", 0),
            held.get("byte_size"),
        )
        if not isinstance(key, str) or type(offset) is not int or type(size) is not int:
            raise InvalidRequestError(
                "register", "must have a string key, and numbers offset and byte_size"
            )
        await self._service.register_memory(route.model, key, offset, size)
        return Reply.of_json({})

    async def _memory_unregister(self, route: Route, _: Request) -> Reply:
        await self._service.unregister_memory(route.model)
        return Reply.of_json({})

    async def _index(self, _: Route, request: Request) -> Reply:
        ready = (await self._body(request, "index")).get("ready", False)
        if not isinstance(ready, bool):
            raise InvalidRequestError(
                "index", f"ready must be a bool, got {ready!r:.40}"
            )
        return Reply.of_json(
            [
                {
                    "name": line.name,
                    "version": line.version,
                    "state": line.state,
                    "reason": line.reason,
                }
                for line in await self._service.index(ready)
            ]
        )

    async def _load(self, route: Route, request: Request) -> Reply:
        self._check_control(request)
        await self._service.load(route.model)
        return Reply.of_json({})

    def _check_control(self, request: Request) -> None:
        self._guard.check_control(request.caller, self._controls)

    async def _unload(self, route: Route, request: Request) -> Reply:
        self._check_control(request)
        await self._service.unload(route.model)
        return Reply.of_json({})

    def _statistics(self, route: Route, *_: object) -> Reply:
        found = self._service.statistics(route.model, route.version)
        return Reply.of_json({"model_stats": [held.to_json() for held in found]})

    def _model_config(self, route: Route, *_: object) -> Reply:
        return Reply.of_json(self._service.model_config(route.model, route.version))

    def _shadow(self, route: Route, *_: object) -> Reply:
        return Reply.of_json(self._service.shadow_report(route.model))

    def _status(self, *_: object) -> Reply:
        return Reply([PAGE], content_type="text/html; charset=utf-8")

    async def _timeline(self, *_: object) -> Reply:
        timeline = self._service.timeline
        if timeline is None:
            raise NotFoundError("http", "the server must be started with --timeline")
        return Reply([await self._coded(lambda: dump_json(timeline.to_json()))])

    async def _trace_setting(self, _: Route, request: Request) -> Reply:
        if request.method == b"POST":
            self._check_control(request)
            change_trace_settings(
                self._service.tracer, await self._body(request, "trace")
            )
        return Reply.of_json(trace_settings(self._service.tracer))

    async def _metrics(self, *_: object) -> Reply:
        text = await asyncio.to_thread(_expose, self._service.metrics)
        return Reply([text], content_type=CONTENT_TYPE)


@functools.lru_cache(maxsize=256)
def _route(method: bytes, target: bytes) -> Route:
    path = target
    if not path.startswith(b"/") or b"?" in path or b"#" in path:
        try:
            path = httptools.parse_url(target).path or b"/"
        except httptools.HttpParserError:
            raise InvalidRequestError(
                "http", f"expected a URL, got {target[:80]!r}"
            ) from None
    if b"%" in path:
        path = unquote_to_bytes(path)
    return find_route(method.decode("latin-1"), path.decode("utf-8", "replace"))


def _expose(metrics: Metrics) -> bytes:
    # Not at the start: servers without a Prometheus never wait for this import.
    from proa_serving.observe.exposition import expose

    return expose(metrics)


def _text_length(text: str | None) -> int:
    """The number that a header says, for what is refused where it is none; else 0."""
    # Not isdigit: a superscript of Latin-1 is a digit for it, and no number.
    return int(text) if text and text.isdecimal() and len(text) < 19 else 0


def _text_size(response: InferResponse, request: InferRequest) -> int:
    """Elements to write as text, or to copy: what takes long."""
    raw = is_raw(response, request)
    if raw and all(held.datatype != "BYTES" for held in response.outputs):
        return 0
    return sum(
        held.array.size
        for held in response.outputs
        if held.datatype == "BYTES" or not (raw or request.wants_binary(held.name))
    )
