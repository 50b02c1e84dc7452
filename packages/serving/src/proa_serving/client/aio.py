"""A client for asyncio that speaks REST over kept connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httptools
import numpy.typing as npt

from proa_serving.client.base import UNIX, key_headers, new_request, parse_address
from proa_serving.client.http import (
    infer_call,
    metadata_from_json,
    model_path,
    raise_for_status,
)
from proa_serving.client.retry import Deadline, Retry, Spread, Tries
from proa_serving.protocol.errors import (
    RequestTimeoutError,
    ServingError,
    UnavailableError,
)
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    Parameters,
)
from proa_serving.protocol.rest import HEADER_LENGTH, decode_response

_LENGTH = HEADER_LENGTH.lower()


class _Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.used = False
        self.open = False
        self._answer: asyncio.Future[tuple[int, bytes, str | None]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._length: str | None = None
        self._keep = True

    def connection_made(self, transport: Any) -> None:
        self.transport, self.open = transport, True

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._fail(ConnectionResetError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _LENGTH.encode():
            self._length = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 100:
            return
        self._keep = self._parser.should_keep_alive()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((status, b"".join(self._parts), self._length))
        if not self._keep:
            self.close()

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    async def send(self, data: bytes) -> tuple[int, bytes, str | None]:
        assert self.transport is not None
        self._parts, self._length = [], None
        self._answer = asyncio.get_running_loop().create_future()
        answer = self._answer
        self.transport.write(data)
        found = await answer
        self.used = True
        return found

    def close(self) -> None:
        self.open = False
        if self.transport is not None:
            self.transport.abort()


class AsyncHttpClient:
    """Sends requests to one server or several, many at one time on one event loop.

    It is used with ``async with``. What is said of :class:`ClientPool` of time limits,
    retries and hedging holds here too.

    Args:
        addresses: host:port or unix:path, several of them, or weights by address.
        timeout: Seconds for a request with all its tries.
        retry: How often it is sent again.
        hedge_s: Seconds after which it is sent a second time, None for never.
        idle: Connections that are kept for each address.
        tls: Speak TLS, and trust what this context does.
        api_key: The key that the servers want.
        headers: Further headers of every request, such as a ``traceparent``.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] | Mapping[str, float],
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        hedge_s: float | None = None,
        idle: int = 32,
        tls: ssl.SSLContext | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._retry = retry or Retry()
        self._spread = Spread(addresses, self._retry)
        self._timeout, self._hedge, self._limit = timeout, hedge_s, idle
        self._tls = tls
        self._headers = _lines({**key_headers(api_key), **(headers or {})})
        self._idle: dict[str, list[_Connection]] = {}

    async def __aenter__(self) -> AsyncHttpClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, npt.ArrayLike],
        *,
        outputs: Sequence[str] = (),
        version: str = "",
        id: str = "",
        parameters: Parameters | None = None,
        binary: bool = True,
        timeout: float | None = None,
    ) -> InferResponse:
        """Run ``model`` on ``inputs`` by name, as :meth:`Client.infer` does.

        Args:
            timeout: Seconds for this request; the client's where None.

        Raises:
            ServingError: What the server raised, of the same type.
        """
        request = new_request(
            model,
            inputs,
            outputs=outputs,
            version=version,
            id=id,
            parameters=parameters,
            binary=binary,
        )
        return await self._infer(request, self._timeout if timeout is None else timeout)

    async def ready(self) -> bool:
        """Whether a server is."""
        address = self._spread.next()
        try:
            status, _, _ = await self._exchange(
                address, "GET", "/v2/health/ready", b"", "", Deadline(self._timeout)
            )
        except ServingError:
            return False
        return status == 200

    async def model_metadata(self, model: str, version: str = "") -> ModelMetadata:
        """What the model takes and gives."""
        status, data, _ = await self._exchange(
            self._spread.next(),
            "GET",
            model_path(model, version, ""),
            b"",
            "",
            Deadline(self._timeout),
        )
        raise_for_status(status, data)
        return metadata_from_json(json.loads(data))

    async def _infer(self, request: InferRequest, seconds: float) -> InferResponse:
        path, headers, body = infer_call(request)
        head = _lines(headers)
        tries = Tries(self._spread, self._retry, seconds)
        while True:
            try:
                return await self._try_hedged(
                    tries.next(), path, body, head, tries.deadline
                )
            except ServingError as error:
                pause = tries.pause_after(error)
            await asyncio.sleep(pause)

    async def _try_hedged(
        self, address: str, path: str, body: bytes, head: str, deadline: Deadline
    ) -> InferResponse:
        if self._hedge is None:
            return await self._try(address, path, body, head, deadline)

        def start(address: str) -> asyncio.Task[InferResponse]:
            sent = self._try(address, path, body, head, deadline)
            return asyncio.create_task(sent)

        running = {start(address)}
        try:
            done, _ = await asyncio.wait(running, timeout=self._hedge)
            if not done and self._spread.may_retry():
                running.add(start(self._spread.next(address)))
            while True:
                done, running = await asyncio.wait(
                    running, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if task.exception() is None or not running:
                        return task.result()
        finally:
            for task in running:
                task.cancel()

    async def _try(
        self, address: str, path: str, body: bytes, head: str, deadline: Deadline
    ) -> InferResponse:
        status, data, size = await self._exchange(
            address, "POST", path, body, head, deadline
        )
        try:
            raise_for_status(status, data)
        except UnavailableError:
            self._spread.failed(address)
            raise
        return decode_response(data, size)

    async def _exchange(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes,
        head: str,
        deadline: Deadline,
    ) -> tuple[int, bytes, str | None]:
        text = (
            f"{method} {path} HTTP/1.1\r\nhost: {_host(address)}\r\n"
            f"content-length: {len(body)}\r\n{head}{self._headers}\r\n"
        )
        data = text.encode("latin-1") + body
        try:
            return await asyncio.wait_for(self._send(address, data), deadline.left())
        except (OSError, httptools.HttpParserError) as error:
            if isinstance(error, TimeoutError):
                raise self._late(address) from error
            self._spread.failed(address)
            raise UnavailableError(
                "client", f"{address} did not answer: {error!r:.200}"
            ) from error
        except asyncio.TimeoutError as error:  # Python 3.10's own
            raise self._late(address) from error

    @staticmethod
    def _late(address: str) -> RequestTimeoutError:
        return RequestTimeoutError("client", f"{address} did not answer in time")

    async def _send(self, address: str, data: bytes) -> tuple[int, bytes, str | None]:
        idle = self._idle.setdefault(address, [])
        while True:
            while idle and not idle[-1].open:
                idle.pop()
            connection = idle.pop() if idle else await self._connect(address)
            used = connection.used
            try:
                found = await connection.send(data)
            except ConnectionResetError:
                # A server may close a connection that idled; nothing was answered.
                if used:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            if connection.open and len(idle) < self._limit:
                idle.append(connection)
            else:
                connection.close()
            return found

    async def _connect(self, address: str) -> _Connection:
        place = parse_address(address)
        loop = asyncio.get_running_loop()
        if isinstance(place, str):
            _, connection = await loop.create_unix_connection(_Connection, place)
        else:
            _, connection = await loop.create_connection(
                _Connection, *place, ssl=self._tls
            )
        return connection


def _host(address: str) -> str:
    """What the header Host says."""
    return "localhost" if address.startswith(UNIX) else address


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
