"""The front ends of a server: each address it listens on, and what is served there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from proa_serving.config import ServerConfig
from proa_serving.http.app import HttpApp
from proa_serving.http.connection import HttpConnection
from proa_serving.models.service import InferenceService
from proa_serving.security.guard import Guard
from proa_serving.security.tls import Tls
from proa_serving.transport.listener import Connections, Listener, bind, bind_unix

# Seconds between looks at the files of keys and certificates.
_REFRESH_SECONDS = 1.0


class FrontEnd(Protocol):
    """What listens: on one address, or on all of gRPC's."""

    @property
    def addresses(self) -> list[str]: ...
    async def start(self) -> None: ...
    def drain(self) -> None: ...
    async def stop(self, grace: float) -> None: ...


class FrontEnds:
    """All of them, together.

    Args:
        config: Where to listen.
        service: What does the work.

    Raises:
        InvalidRequestError: If the file of API keys cannot be used.
    """

    def __init__(self, config: ServerConfig, service: InferenceService) -> None:
        self._config, self._service = config, service
        self._guard = Guard(config)
        self._connections = Connections(config)
        self._tls: list[Tls] = []
        self._apps: list[HttpApp] = []
        self._refreshing: asyncio.TimerHandle | None = None
        self.by_protocol: dict[str, list[FrontEnd]] = {}

    def addresses(self, protocol: str) -> list[str]:
        """``host:port`` and ``unix:path`` of "http", "grpc" or "admin", once open."""
        fronts = self.by_protocol.get(protocol, [])
        return [address for front in fronts for address in front.addresses]

    def open(self) -> None:
        """Take the ports and the sockets; clients wait until :meth:`start`.

        Raises:
            AddressInUseError: If one is taken.
            InvalidRequestError: If the certificate cannot be used.
        """
        for protocol in ("http", "admin"):
            for held, tls in self._sockets(protocol, "http/1.1"):
                app = HttpApp(self._service, self._guard, is_admin=protocol == "admin")
                self._apps.append(app)
                front: FrontEnd = Listener(
                    app,
                    HttpConnection,
                    held,
                    self._config,
                    self._service.budget,
                    self._connections,
                    tls,
                )
                self.by_protocol.setdefault(protocol, []).append(front)
        if self._config.grpc_port is not None or self._config.grpc_socket is not None:
            self._open_grpc()

    def _open_grpc(self) -> None:
        # Imported here, as it is half of the start, and not needed for HTTP.
        config, service = self._config, self._service
        held = self.by_protocol.setdefault("grpc", [])
        if config.grpc_engine == "grpcio":
            from proa_serving.grpc.server import GrpcioServer

            held.append(GrpcioServer(config, service, self._guard))
            return
        from proa_serving.grpc.methods import GrpcMethods
        from proa_serving.http2.connection import ALPN, Http2Connection

        methods = GrpcMethods(service, self._guard)
        for opened, tls in self._sockets("grpc", ALPN):
            held.append(
                Listener(
                    methods,
                    Http2Connection,
                    opened,
                    config,
                    service.budget,
                    self._connections,
                    tls,
                )
            )

    def _sockets(
        self, protocol: str, alpn: str
    ) -> Iterator[tuple[socket.socket, Tls | None]]:
        """The sockets of a protocol; a Unix socket is not encrypted."""
        config = self._config
        places: dict[str, tuple[str, int | None, Path | None]] = {
            "http": (config.host, config.http_port, config.http_socket),
            "grpc": (config.host, config.grpc_port, config.grpc_socket),
            "admin": (config.admin_host, config.admin_port, None),
        }
        host, port, path = places[protocol]
        if port is not None:
            tls = None
            if config.tls is not None:
                tls = Tls(config.tls, alpn)
                self._tls.append(tls)
            yield bind(host, port, protocol), tls
        if path is not None:
            yield bind_unix(path, protocol), None

    def _all(self) -> list[FrontEnd]:
        return [front for held in self.by_protocol.values() for front in held]

    async def start(self) -> None:
        """Answer."""
        for front in self._all():
            await front.start()
        self._refresh()

    def _refresh(self) -> None:
        """Read keys and certificates that were replaced; again and again."""
        loop = asyncio.get_running_loop()
        self._refreshing = loop.call_later(_REFRESH_SECONDS, self._refresh)
        self._guard.refresh()
        for tls in self._tls:
            tls.refresh()

    async def stop(self, grace: float) -> None:
        """Refuse what is new, and finish what is in flight within ``grace`` seconds."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        fronts = self._all()
        for front in fronts:
            front.drain()
        await asyncio.gather(*(front.stop(grace) for front in fronts))
        for app in self._apps:
            app.close()
