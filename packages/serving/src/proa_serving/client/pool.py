"""A client for many threads and several servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from proa_serving.client.base import Client
from proa_serving.client.http import HttpClient
from proa_serving.client.retry import Deadline, Retry, Spread, Tries
from proa_serving.protocol.errors import ServingError, UnavailableError
from proa_serving.protocol.messages import InferRequest, InferResponse


class ClientPool(Client):
    """Sends requests over kept connections to one server or several.

    A request that meets a server which is not available, or overloaded, is sent again,
    to another server where there is one. All of its tries together have ``timeout``.
    Safe to share between threads.

    Args:
        addresses: host:port or unix:path, several of them, or weights by address.
        timeout: Seconds for a request with all its tries.
        retry: How often it is sent again.
        hedge_s: Seconds after which a request that is not answered is sent a second
            time, and the first answer counts; None for never. It is paid from the
            budget of retries too.
        idle: Connections that are kept for each address.
        **options: For each :class:`HttpClient`.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] | Mapping[str, float],
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        hedge_s: float | None = None,
        idle: int = 8,
        **options: Any,
    ) -> None:
        self._retry = retry or Retry()
        self._spread = Spread(addresses, self._retry)
        self._timeout, self._hedge = timeout, hedge_s
        self._options, self._limit = options, idle
        self._idle: dict[str, list[HttpClient]] = {}
        self._changing = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._changing:
            idle, self._idle = self._idle, {}
            threads, self._threads = self._threads, None
        for clients in idle.values():
            for client in clients:
                client.close()
        if threads is not None:
            threads.shutdown(wait=False)

    def ready(self) -> bool:
        """Whether a server is."""
        client = self._client(address := self._spread.next(), self._timeout)
        try:
            return client.ready()
        except ServingError:
            return False
        finally:
            self._keep(address, client)

    def _infer(self, request: InferRequest) -> InferResponse:
        tries = Tries(self._spread, self._retry, self._timeout)
        while True:
            try:
                return self._try_hedged(request, tries.next(), tries.deadline)
            except ServingError as error:
                pause = tries.pause_after(error)
            time.sleep(pause)

    def _try(
        self, request: InferRequest, address: str, deadline: Deadline
    ) -> InferResponse:
        client = self._client(address, deadline.left())
        try:
            answer = client._infer(request)
        except UnavailableError:
            self._spread.failed(address)
            client.close()
            raise
        except ServingError:
            self._keep(address, client)
            raise
        except BaseException:
            client.close()
            raise
        self._keep(address, client)
        return answer

    def _try_hedged(
        self, request: InferRequest, address: str, deadline: Deadline
    ) -> InferResponse:
        if self._hedge is None:
            return self._try(request, address, deadline)
        with self._changing:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(32, "proa-client")
            threads = self._threads
        running: set[Future[InferResponse]] = {
            threads.submit(self._try, request, address, deadline)
        }
        done, running = wait(running, min(self._hedge, deadline.left()))
        if not done and self._spread.may_retry():
            other = self._spread.next(address)
            running.add(threads.submit(self._try, request, other, deadline))
        while True:
            if not done:
                done, running = wait(
                    running, deadline.left(), return_when=FIRST_COMPLETED
                )
            for future in done:
                if future.exception() is None or not running:
                    return future.result()
            done = set()
            deadline.left()

    def _client(self, address: str, timeout: float) -> HttpClient:
        with self._changing:
            idle = self._idle.get(address)
            client = idle.pop() if idle else None
        if client is None:
            return HttpClient(address, timeout=timeout, **self._options)
        client.set_timeout(timeout)
        return client

    def _keep(self, address: str, client: HttpClient) -> None:
        with self._changing:
            idle = self._idle.setdefault(address, [])
            if len(idle) < self._limit:
                idle.append(client)
                return
        client.close()
