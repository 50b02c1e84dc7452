"""The REST front end as an ASGI application.

It is written on ASGI itself: a framework's routing and request objects would cost
more time than all else that a small inference request needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from proa_serving.http.body import ClientGoneError, Message, Receive, read_body
from proa_serving.http.routes import Route, find_route
from proa_serving.metrics import CONTENT_TYPE
from proa_serving.models.service import METADATA, InferenceService
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ServingError,
    TooLargeError,
    UnavailableError,
)
from proa_serving.protocol.rest import (
    BINARY_TYPE,
    HEADER_LENGTH,
    JSON_TYPE,
    decode_request,
    dump_json,
    encode_response,
    parse_json,
)

log = logging.getLogger("proa_serving.http")
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]
_LENGTH = HEADER_LENGTH.lower().encode()
# Above this many bytes or elements, coding moves to a thread, off the event loop.
_BIG = 2**16


class Reply:
    """An answer: its status, body and headers."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, body: bytes, *, status: int = 200, content_type: str = JSON_TYPE
    ) -> None:
        self.status, self.body = status, body
        self.headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]


def _json(held: Any, status: int = 200) -> Reply:
    return Reply(dump_json(held), status=status)


class HttpApp:
    """Answers the requests of one server."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._config = service.config
        self._actions: dict[str, Callable[[Route, Headers, Receive], Any]] = {
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
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        try:
            reply = await self._answer(scope, receive)
        except ClientGoneError:
            return
        except ServingError as error:
            reply = _json({"error": str(error)}, error.http_status)
            if isinstance(error, TooLargeError):  # What is left of it is not read.
                reply.headers.append((b"connection", b"close"))
        except asyncio.CancelledError:
            if not self._service.draining:
                raise
            late = UnavailableError("server", "is shutting down; the request was cut")
            reply = _json({"error": str(late)}, late.http_status)
        except Exception:
            log.exception("an HTTP request failed inside the server")
            reply = _json({"error": "[server] failed; its log says more"}, 500)
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": reply.headers,
            }
        )
        await send({"type": "http.response.body", "body": reply.body})

    async def _answer(self, scope: Message, receive: Receive) -> Reply:
        route = find_route(scope["method"], scope["path"])
        reply: Reply = await self._actions[route.action](
            route, dict(scope["headers"]), receive
        )
        return reply

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        return await read_body(
            receive, headers, self._config.max_request_bytes, self._config.timeout_s
        )

    async def _infer(self, route: Route, headers: Headers, receive: Receive) -> Reply:
        length = headers.get(_LENGTH)
        text = None if length is None else length.decode("latin-1")
        try:
            body = await self._body(headers, receive)
            # Text is slow to decode and raw bytes are not.
            size = int(text) if text and text.isdigit() else len(body)
            task = (route.model, route.version, body, text)
            if size > _BIG:
                request = await asyncio.to_thread(decode_request, *task)
            else:
                request = decode_request(*task)
        except ServingError as error:
            self._service.metrics.refused("http", error.reason)
            raise
        response = await self._service.infer(request, "http")
        if sum(held.array.size for held in response.outputs) > _BIG:
            data, json_size = await asyncio.to_thread(
                encode_response, response, request
            )
        else:
            data, json_size = encode_response(response, request)
        if json_size is None:
            return Reply(data)
        reply = Reply(data, content_type=BINARY_TYPE)
        reply.headers.append((_LENGTH, str(json_size).encode()))
        return reply

    async def _server_metadata(self, *_: Any) -> Reply:
        return _json(
            {
                "name": METADATA.name,
                "version": METADATA.version,
                "extensions": list(METADATA.extensions),
            }
        )

    async def _live(self, *_: Any) -> Reply:
        return _json({"live": True})

    async def _ready(self, *_: Any) -> Reply:
        ready = self._service.ready()
        return _json({"ready": ready}, 200 if ready else 503)

    async def _model_ready(self, route: Route, *_: Any) -> Reply:
        ready = self._service.model_ready(route.model, route.version)
        return _json({"name": route.model, "ready": ready}, 200 if ready else 503)

    async def _model_metadata(self, route: Route, *_: Any) -> Reply:
        held = self._service.model_metadata(route.model, route.version)
        return _json(
            {
                "name": held.name,
                "versions": list(held.versions),
                "platform": held.platform,
                "inputs": [spec.to_json() for spec in held.inputs],
                "outputs": [spec.to_json() for spec in held.outputs],
            }
        )

    async def _index(self, _: Route, headers: Headers, receive: Receive) -> Reply:
        body = await self._body(headers, receive)
        ready = parse_json(body, "index").get("ready", False) if body else False
        if not isinstance(ready, bool):
            raise InvalidRequestError(
                "index", f"ready must be a bool, got {ready!r:.40}"
            )
        return _json(
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

    async def _load(self, route: Route, headers: Headers, receive: Receive) -> Reply:
        await self._body(headers, receive)
        await self._service.load(route.model)
        return _json({})

    async def _unload(self, route: Route, headers: Headers, receive: Receive) -> Reply:
        await self._body(headers, receive)
        await self._service.unload(route.model)
        return _json({})

    async def _metrics(self, *_: Any) -> Reply:
        text = await asyncio.to_thread(self._service.metrics.expose)
        return Reply(text, content_type=CONTENT_TYPE)
