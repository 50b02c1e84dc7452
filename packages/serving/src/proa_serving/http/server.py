"""Listens for HTTP and gives what comes to the application, by uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import socket
from collections.abc import Iterator
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proa_serving.protocol.errors import AddressInUseError

log = logging.getLogger("proa_serving.http")
_MAX_HEADER_BYTES = 64 * 1024


class _Protocol(HttpToolsProtocol):
    """uvicorn's, with a bound on what a client may send before the body."""

    _head = 0

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > _MAX_HEADER_BYTES:
            raise httptools.HttpParserError("the head of the request is too long")


class _Server(uvicorn.Server):
    """uvicorn's, without its signal handlers: the application has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host`` and ``port``; port 0 picks one.

    Raises:
        AddressInUseError: If that cannot be, and why.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        held = socket.socket(family, kind, proto)
    except OSError as error:
        raise AddressInUseError("http", f"cannot use {host}:{port}: {error}") from error
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
        held.listen(2048)
    except OSError as error:
        held.close()
        why = "port in use" if error.errno == errno.EADDRINUSE else str(error)
        raise AddressInUseError(
            "http", f"cannot listen on {host}:{port}: {why}"
        ) from error
    held.setblocking(False)
    return held


class HttpServer:
    """An application that listens on a socket until it is stopped."""

    def __init__(self, app: Any, held: socket.socket, max_connections: int) -> None:
        self._socket = held
        self.port: int = held.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=75,
                limit_concurrency=max_connections,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise AddressInUseError("http", "the HTTP server ended at its start")
            await asyncio.sleep(0.001)

    async def stop(self, grace: float) -> None:
        """Accept no more; let what is in flight end within ``grace`` seconds."""
        self._server.config.timeout_graceful_shutdown = math.ceil(grace)
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()
