"""Accepts connections within the limits, times them out, and ends in order."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import math
import resource
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from proa_serving.config import ServerConfig
from proa_serving.models.shared_memory import MAX_REGIONS
from proa_serving.protocol.errors import AddressInUseError
from proa_serving.schedule.budget import ByteBudget
from proa_serving.security.tls import Tls
from proa_serving.transport.native import native_transport
from proa_serving.transport.phases import (
    BLOCKED,
    BODY,
    BUSY,
    HEAD,
    IDLE,
    LINGER,
    NEW,
    has_unread,
)

log = logging.getLogger("proa_serving")
_READ_BYTES = 256 * 1024
_BACKLOG = 2048
# Descriptors that are left for models, logs, gRPC and the event loop.
_RESERVED_FILES = 64
# Connections beyond the limit that are answered health checks alone.
_HEALTH_CONNECTIONS = 8
# Accepted in one iteration of the event loop.
_ACCEPTED = 32
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BACK_OFF = 0.1
_LOG_SECONDS = 10.0
_LINGER_SECONDS = 5.0
# While draining. A client that was answered may be about to send its next request:
# that answer says to close, which is better than a connection that is closed already.
_DRAIN_IDLE_SECONDS = 0.5
_DRAIN_SECONDS = 0.1  # at least, for requests that are on their way
_DRAIN_INTERVAL = 0.05
_DRAIN_LINGER_SECONDS = 1.0
# Drops the segments that open a TCP connection, and no others, in the instructions of
# the kernel's socket filters: if (byte 13, the flags, & (SYN | ACK)) == SYN, drop.
_NO_SYN = (
    (0x30, 0, 0, 13),
    (0x54, 0, 0, 0x12),
    (0x15, 0, 1, 0x02),
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)
_SO_ATTACH_FILTER = 26


def bind(host: str, port: int, where: str) -> socket.socket:
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
        raise AddressInUseError(where, f"cannot use {host}:{port}: {error}") from error
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
        held.listen(_BACKLOG)
    except OSError as error:
        held.close()
        why = "port in use" if error.errno == errno.EADDRINUSE else str(error)
        raise AddressInUseError(
            where, f"cannot listen on {host}:{port}: {why}"
        ) from error
    held.setblocking(False)
    return held


def bind_unix(path: Path, where: str) -> socket.socket:
    """A Unix socket that listens at ``path``; one that nobody serves is replaced.

    Raises:
        AddressInUseError: If that cannot be, and why.
    """
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if stat.S_ISSOCK(path.stat().st_mode) and held.connect_ex(str(path)):
            path.unlink()
        held.close()
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except FileNotFoundError:
        pass
    except OSError as error:
        held.close()
        raise AddressInUseError(where, f"cannot use {path}: {error}") from error
    try:
        held.bind(str(path))
        held.listen(_BACKLOG)
    except OSError as error:
        held.close()
        raise AddressInUseError(where, f"cannot listen at {path}: {error}") from error
    held.setblocking(False)
    return held


def _refuse_handshakes(held: socket.socket) -> None:
    """Let no more clients connect to ``held``; those that did wait to be accepted.

    Closing a socket resets the connections that it has not accepted, and there could
    always be one more after the last that was. Where this is not known, a client that
    connects at that moment is reset.
    """
    if sys.platform != "linux" or held.family == socket.AF_UNIX:
        return
    program = b"".join(struct.pack("HBBI", *each) for each in _NO_SYN)
    memory = array.array("B", program)
    option = struct.pack("HP", len(_NO_SYN), memory.buffer_info()[0])
    try:
        held.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)
    except OSError as error:
        log.debug("cannot filter the connections that are refused: %s", error)


def _report(error: BaseException) -> None:
    log.error("a connection failed inside the server", exc_info=error)


class Connection(Protocol):
    """One client, whatever it speaks; an ``asyncio.BufferedProtocol``."""

    phase: str
    deadline: float
    health_only: bool
    sock: socket.socket | None

    def expire(self) -> None: ...
    def drain(self) -> None: ...
    def cut(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Connections:
    """The connections of all listeners of one server, and how many there may be.

    Args:
        config: The limit, which open files may lower.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.held: set[Connection] = set()
        reserved = _RESERVED_FILES + (MAX_REGIONS if config.shared_memory else 0)
        self._limit = _allowed_connections(config.max_connections, reserved)

    def is_full(self) -> bool:
        """Whether the next one may only check the server's health.

        That may close an idle one, or one that checked.
        """
        checks = [each for each in self.held if each.health_only]
        if len(self.held) - len(checks) < self._limit or self.make_room():
            return False
        if len(checks) >= _HEALTH_CONNECTIONS:
            min(checks, key=lambda each: each.deadline).abort()
        return True

    def make_room(self) -> bool:
        """Close the connection that has idled longest, if any does.

        One whose request has arrived and waits to be read does not idle.
        """
        idle = [
            each
            for each in self.held
            if each.phase in (NEW, IDLE) and not each.health_only
        ]
        for each in sorted(idle, key=lambda each: each.deadline):
            if not has_unread(each.sock):
                each.close()
                return True
        return False


def _allowed_connections(wanted: int, reserved: int) -> int:
    """``wanted``, or as many as file descriptors allow if ``reserved`` are left."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return wanted
    allowed = max(1, files - reserved - _HEALTH_CONNECTIONS)
    if allowed < wanted:
        log.warning(
            "at most %d connections, not %d: the limit of open files is %d",
            allowed,
            wanted,
            files,
        )
    return min(wanted, allowed)


Answers = TypeVar("Answers")
# (listener, its event loop, whether health checks alone are answered) -> protocol
Connect = Callable[["Listener[Answers]", asyncio.AbstractEventLoop, bool], Any]


class Listener(Generic[Answers]):
    """Connections of one socket, until it is stopped.

    At the limit of connections the one that has idled longest makes room. Where none
    idles a few more are answered health checks, so that a busy server is not taken for
    a dead one.

    Args:
        answers: Where requests go.
        connect: Makes the connection that serves a client.
        held: The socket, which listens.
        config: The limits.
        budget: Budget of the bytes that requests hold.
        shared: The connections of all listeners.
        tls: The certificate; None serves in the clear.
    """

    def __init__(
        self,
        answers: Answers,
        connect: Connect[Answers],
        held: socket.socket,
        config: ServerConfig,
        budget: ByteBudget,
        shared: Connections,
        tls: Tls | None = None,
    ) -> None:
        self.answers, self.budget = answers, budget
        self._tls = tls
        # It speaks in the clear; asyncio's transports encrypt.
        self._native = None if tls is not None else native_transport(config)
        self._engine: Any = None  # the native transport's, once started
        self._new_connection = connect
        self.draining = False
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self.max_request_bytes = config.max_request_bytes
        self.seconds = {
            NEW: config.head_timeout_s,
            IDLE: config.idle_timeout_s,
            HEAD: config.head_timeout_s,
            BODY: config.timeout_s,
            BUSY: math.inf,  # the service has time-outs of its own
            BLOCKED: config.timeout_s,
            LINGER: _LINGER_SECONDS,
        }
        self._name = held.getsockname()
        self._socket = held
        self._shared = shared
        self._connections: set[Connection] = set()
        self._opening: dict[Connection, asyncio.Task[None]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._logged = -math.inf
        self._empty = asyncio.Event()

    @property
    def addresses(self) -> list[str]:
        """``host:port``, or ``unix:path``."""
        if self._socket_path is not None:
            return [f"unix:{self._socket_path}"]
        host, port = self._name[:2]
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]

    @property
    def _socket_path(self) -> Path | None:
        return Path(self._name) if isinstance(self._name, str) else None

    async def start(self) -> None:
        """Accept connections on the running event loop."""
        self._loop = asyncio.get_running_loop()
        if self._native is not None:
            self._engine = self._native.Engine(
                *(self._loop.call_soon, _report, _READ_BYTES),
                *(self.budget, self.seconds),
            )
            self.buffer = self._engine.buffer
            self._loop.add_reader(self._engine.fileno(), self._engine.poll)
        self._interval = min(0.5, min(self.seconds.values()) / 4)
        self._expire()
        self._listen()

    def forget(self, connection: Connection) -> None:
        """``connection`` is closed, or about to be."""
        self._connections.discard(connection)
        self._shared.held.discard(connection)
        opening = self._opening.pop(connection, None)
        if opening is not None:
            opening.cancel()
        if not self._connections:
            self._empty.set()

    def _listen(self) -> None:
        if not self.draining:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> int:
        """Accept what waits, a few at a time; how many it was."""
        for count in range(_ACCEPTED):
            try:
                held, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return count
            except OSError as error:
                self._back_off(error)
                return count
            held.setblocking(False)
            self._open(held)
        return _ACCEPTED

    def _back_off(self, error: OSError) -> None:
        """Wait with accepting; every iteration of the loop would report the same."""
        now = time.monotonic()
        if now - self._logged > _LOG_SECONDS:
            self._logged = now
            log.error("cannot accept connections: %s", error)
        if error.errno in _NO_ROOM:
            self._shared.make_room()
        self._loop.remove_reader(self._socket)
        self._loop.call_later(_BACK_OFF, self._listen)

    def _open(self, held: socket.socket) -> None:
        connection = self._new_connection(self, self._loop, self._shared.is_full())
        connection.sock = held
        self._connections.add(connection)
        self._shared.held.add(connection)
        if self._engine is not None:
            self._engine.connect(held, connection)
            return
        task = self._loop.create_task(self._connect(connection, held))
        self._opening[connection] = task
        task.add_done_callback(lambda task: self._opened(connection, held, task))

    async def _connect(self, connection: Any, held: socket.socket) -> None:
        options: dict[str, Any] = {}
        if self._tls is not None:
            options["ssl"] = self._tls.context
            options["ssl_handshake_timeout"] = self.seconds[NEW]
            if sys.version_info >= (3, 11):
                options["ssl_shutdown_timeout"] = self.seconds[LINGER]
        await self._loop.connect_accepted_socket(lambda: connection, held, **options)

    def _opened(
        self, connection: Connection, held: socket.socket, task: asyncio.Task[None]
    ) -> None:
        self._opening.pop(connection, None)
        if task.cancelled():
            held.close()
            return
        error = task.exception()
        if error is None:
            return
        # The handshake failed, or the client is gone.
        log.debug("a connection was lost as it was accepted: %s", error)
        if not isinstance(error, OSError):
            _report(error)
        self.forget(connection)
        held.close()

    def _expire(self) -> None:
        """Close the connections whose clients are too slow; again and again."""
        self._sweep = self._loop.call_later(self._interval, self._expire)
        now = self._loop.time()
        for connection in [each for each in self._connections if each.deadline < now]:
            connection.expire()

    def drain(self) -> None:
        """Close each connection after its next answer, or when it idles."""
        if self.draining:
            return
        self.draining = True
        if self._sweep is None:  # It was not started.
            return
        soonest = self._loop.time() + _DRAIN_SECONDS
        for phase in (NEW, IDLE):
            allowed = self.seconds[phase]
            self.seconds[phase] = min(allowed, _DRAIN_IDLE_SECONDS)
            sooner = allowed - self.seconds[phase]
            for each in self._connections:
                if each.phase is phase:
                    each.deadline = max(soonest, each.deadline - sooner)
        self.seconds[LINGER] = _DRAIN_LINGER_SECONDS
        for each in list(self._connections):
            each.drain()
        self._interval = _DRAIN_INTERVAL
        self._sweep.cancel()
        self._expire()

    async def stop(self, grace: float) -> None:
        """Accept no more; let what is in flight end within ``grace`` seconds."""
        end = time.monotonic() + grace
        self.drain()
        if self._sweep is None:
            self._close_socket()
            return
        self._loop.remove_reader(self._socket)
        # Clients that are connected, as far as they know, must not be reset.
        _refuse_handshakes(self._socket)
        while self._accept() == _ACCEPTED:
            await asyncio.sleep(0)
        self._loop.remove_reader(self._socket)
        self._close_socket()
        await self._closed(end - time.monotonic())
        for connection in list(self._connections):
            connection.cut()
        await self._closed(min(_DRAIN_LINGER_SECONDS, grace))
        for connection in list(self._connections):
            connection.abort()
        self._sweep.cancel()
        await asyncio.sleep(0)  # for the transports to close
        if self._engine is not None:
            self._loop.remove_reader(self._engine.fileno())
            self._engine.close()

    def _close_socket(self) -> None:
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
        self._socket.close()

    async def _closed(self, seconds: float) -> None:
        """Wait until no connection is left, or ``seconds``."""
        self._empty.clear()
        if self._connections:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._empty.wait(), max(0.0, seconds))
