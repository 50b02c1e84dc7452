"""A whole server: models, both front ends, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import TracebackType

from proa_serving.config import ServerConfig
from proa_serving.fronts import FrontEnds
from proa_serving.metrics import Metrics
from proa_serving.models.repository import ModelRepository
from proa_serving.models.service import InferenceService
from proa_serving.observe.access_log import AccessLog
from proa_serving.observe.otlp import OtlpExport
from proa_serving.observe.timeline import Timeline
from proa_serving.observe.trace import Sink, Tracer
from proa_serving.protocol.errors import ServingError

log = logging.getLogger("proa_serving")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, which is faster; else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Server:
    """Serves what ``config`` says, on the event loop that calls ``start``."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.metrics = Metrics()
        self.repository = ModelRepository(config, self.metrics)
        self._service = InferenceService(config, self.repository, self.metrics)
        self._observe(config)
        self._fronts = FrontEnds(config, self._service)
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
        """host:port of REST, or unix:path where there is no port, once started."""
        return self._address("http")

    @property
    def grpc_address(self) -> str | None:
        """The same of gRPC."""
        return self._address("grpc")

    @property
    def admin_address(self) -> str | None:
        """host:port of REST for administrators, once started."""
        return self._address("admin")

    def addresses(self, protocol: str) -> list[str]:
        """All addresses of "http", "grpc" or "admin", once started."""
        return self._fronts.addresses(protocol)

    def _address(self, protocol: str) -> str | None:
        return next(iter(self.addresses(protocol)), None)

    async def start(self) -> None:
        """Take the ports, load the models, and answer.

        Raises:
            AddressInUseError: If a port is taken.
            ServingError: If a model cannot be loaded.
        """
        try:
            # Ports first: they fail fast, and a model may take long to load.
            self._fronts.open()
            await asyncio.to_thread(self.repository.load_all)
            await self._fronts.start()
            if self._config.poll_s:
                self._polling = asyncio.create_task(self._poll(self._config.poll_s))
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
        await self._fronts.stop(grace)
        self._service.close()
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
    def admin_address(self) -> str:
        assert self._server.admin_address is not None, "no admin port was requested"
        return self._server.admin_address

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
