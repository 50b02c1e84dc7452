"""A whole server: models, both front ends, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from proa_serving.config import ServerConfig
from proa_serving.http.app import HttpApp
from proa_serving.http.connection import HttpConnection
from proa_serving.metrics import Metrics
from proa_serving.models.repository import ModelRepository
from proa_serving.models.service import InferenceService
from proa_serving.observe.access_log import AccessLog
from proa_serving.observe.otlp import OtlpExport
from proa_serving.observe.timeline import Timeline
from proa_serving.observe.trace import Sink, Tracer
from proa_serving.protocol.errors import ServingError
from proa_serving.transport.listener import Listener, bind

if TYPE_CHECKING:
    from proa_serving.grpc.methods import GrpcMethods
    from proa_serving.grpc.server import GrpcioServer

log = logging.getLogger("proa_serving")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, which is faster; else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _new_grpc(
    config: ServerConfig, service: InferenceService
) -> Listener[GrpcMethods] | GrpcioServer:
    # Imported here, as it is half of the start, and not needed for HTTP.
    assert config.grpc_port is not None
    if config.grpc_engine == "grpcio":
        from proa_serving.grpc.server import GrpcioServer

        return GrpcioServer(config, service)
    from proa_serving.grpc.methods import GrpcMethods
    from proa_serving.http2.connection import Http2Connection

    held = bind(config.host, config.grpc_port, "grpc")
    return Listener(GrpcMethods(service), Http2Connection, held, config, service.budget)


class Server:
    """Serves what ``config`` says, on the event loop that calls ``start``."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.metrics = Metrics()
        self.repository = ModelRepository(config, self.metrics)
        self._service = InferenceService(config, self.repository, self.metrics)
        self._observe(config)
        self._app: HttpApp | None = None
        self._http: Listener[HttpApp] | None = None
        self._grpc: Listener[GrpcMethods] | GrpcioServer | None = None
        self._polling: asyncio.Task[None] | None = None

    def _observe(self, config: ServerConfig) -> None:
        """Trace requests where anything is to take the traces."""
        sinks: list[Sink] = []
        if config.access_log is not None:
            sinks.append(AccessLog(config.access_log))
        if config.otlp:
            sinks.append(OtlpExport(config.otlp))
        if config.timeline is not None:
            self._service.timeline = Timeline(config.timeline)
            sinks.append(self._service.timeline)
        if sinks:
            self._service.tracer = Tracer(config.trace_share, sinks)

    @property
    def http_address(self) -> str | None:
        """host:port of REST, once started."""
        return f"{self._config.host}:{self._http.port}" if self._http else None

    @property
    def grpc_address(self) -> str | None:
        """host:port of gRPC, once started."""
        return f"{self._config.host}:{self._grpc.port}" if self._grpc else None

    async def start(self) -> None:
        """Take the ports, load the models, and answer.

        Raises:
            AddressInUseError: If a port is taken.
            ServingError: If a model cannot be loaded.
        """
        config = self._config
        try:
            # Ports first: they fail fast, and a model may take long to load.
            if config.http_port is not None:
                held = bind(config.host, config.http_port, "http")
                self._app = HttpApp(self._service)
                self._http = Listener(
                    self._app, HttpConnection, held, config, self._service.budget
                )
            if config.grpc_port is not None:
                self._grpc = _new_grpc(config, self._service)
            await asyncio.to_thread(self.repository.load_all)
            if self._grpc is not None:
                await self._grpc.start()
            if self._http is not None:
                await self._http.start()
            if config.poll_s:
                self._polling = asyncio.create_task(self._poll(config.poll_s))
        except BaseException:
            await self.stop(0.0)
            raise

    async def _poll(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await asyncio.to_thread(self.repository.refresh)
            except Exception:
                log.exception("looking for changed models failed")

    async def stop(self, grace: float | None = None) -> bool:
        """Refuse what is new, finish what is in flight; True if all was finished.

        Args:
            grace: Seconds for that; as configured where None.
        """
        grace = self._config.grace_s if grace is None else grace
        end = time.monotonic() + grace
        self._service.drain()
        if self._polling is not None:
            self._polling.cancel()
        fronts = [front for front in (self._http, self._grpc) if front is not None]
        for front in fronts:
            front.drain()
        await asyncio.gather(*(front.stop(grace) for front in fronts))
        if self._app is not None:
            self._app.close()
        left = max(0.0, end - time.monotonic())
        clean = await asyncio.to_thread(self.repository.close, left)
        tracer, self._service.tracer = self._service.tracer, None
        if tracer is not None:
            await asyncio.to_thread(tracer.close)
        return clean


class BackgroundServer:
    """A :class:`Server` on a thread of its own; a context manager.

    >>> with BackgroundServer(config) as server:  # doctest: +SKIP
    ...     print(server.http_address)
    """

    def __init__(self, config: ServerConfig) -> None:
        self._server = Server(config)
        self._loop = new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="proa-serve", daemon=True
        )

    @property
    def http_address(self) -> str:
        assert self._server.http_address is not None, "no HTTP port was requested"
        return self._server.http_address

    @property
    def grpc_address(self) -> str:
        assert self._server.grpc_address is not None, "no gRPC port was requested"
        return self._server.grpc_address

    @property
    def metrics(self) -> Metrics:
        return self._server.metrics

    def __enter__(self) -> BackgroundServer:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result()
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self, grace: float | None = None) -> bool:
        """Stop as :meth:`Server.stop` does; once."""
        stopping = asyncio.run_coroutine_threadsafe(
            self._server.stop(grace), self._loop
        )
        try:
            return stopping.result()
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


__all__ = ["BackgroundServer", "Server", "ServerConfig", "ServingError"]
