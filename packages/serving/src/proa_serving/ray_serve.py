"""A deployment of Ray Serve that answers as ``proa-serve`` does, behind Ray's proxy.

Each replica holds the models, batches and limits of one server and no port of its own;
Ray starts replicas, spreads requests and replaces what fails. It needs
``pip install 'proa-serving[ray]'``.

>>> from ray import serve  # doctest: +SKIP
>>> from proa_serving.config import ServerConfig
>>> from proa_serving.ray_serve import deployment  # doctest: +SKIP
>>> config = ServerConfig(repository="models")  # doctest: +SKIP
>>> serve.run(deployment(config, num_replicas=2).bind())  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from proa_serving.client.base import new_request
from proa_serving.config import ServerConfig
from proa_serving.http.app import HttpApp
from proa_serving.http.body import Body
from proa_serving.http.messages import Reply, Request
from proa_serving.metrics import Metrics
from proa_serving.models.repository import ModelRepository
from proa_serving.models.service import InferenceService
from proa_serving.protocol.errors import (
    ServingError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from proa_serving.protocol.messages import Array, InferResponse, Parameters
from proa_serving.security.guard import Guard


class Replica:
    """The models of one server on the event loop of one replica.

    Args:
        config: As for a server; ports are not taken, and polling is not done.

    Raises:
        UnsupportedError: If it has what a replica cannot keep: keys or rates, which
            belong at Ray's proxy, as does TLS.
        ServingError: If a model cannot be loaded.
    """

    def __init__(self, config: ServerConfig) -> None:
        if config.api_keys or config.rate_limit or config.tls:
            raise UnsupportedError(
                "ray", "api_keys, rate_limit and tls must be left to Ray's proxy"
            )
        self._config = config
        metrics = Metrics()
        self._repository = ModelRepository(config, metrics)
        self._service = InferenceService(config, self._repository, metrics)
        self._app = HttpApp(self._service, Guard(config))
        self._repository.load_all()

    async def answer(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
    ) -> Reply:
        """What a server answers to an HTTP request."""
        request = Request()
        request.method, request.target = method.encode(), target.encode()
        request.headers = {name.lower(): value for name, value in headers}
        try:
            limit = self._config.max_request_bytes
            if len(body) > limit:
                raise TooLargeError("request", f"body must be at most {limit} bytes")
            self._service.budget.take(len(body))
        except ServingError as error:
            return Reply.of_error(error)
        request.charged = len(body)
        request.body = Body(None, 0)
        request.body.append(body)
        try:
            reply = self._app.answer(request)
            return reply if isinstance(reply, Reply) else await reply
        finally:
            self._service.budget.release(request.charged)

    async def __call__(self, request: Any) -> Any:  # both are Starlette's
        """Answer a request that Ray's proxy passes on."""
        from starlette.responses import Response

        reply = await self.answer(
            request.method,
            request.scope["path"],
            request.headers.raw,
            await request.body(),
        )
        # In the form of the wire, of which the framework writes the length itself.
        lines = reply.headers.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        return Response(
            b"".join(map(bytes, reply.parts)),
            status_code=reply.status,
            headers=headers,
            media_type=reply.content_type,
        )

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, npt.ArrayLike],
        *,
        outputs: Sequence[str] = (),
        version: str = "",
        parameters: Parameters | None = None,
    ) -> dict[str, Array]:
        """Run a model on arrays by name, for other deployments by their handle.

        Raises:
            ServingError: What a server would answer.
        """
        request = new_request(
            model,
            inputs,
            outputs=outputs,
            version=version,
            id="",
            parameters=parameters,
            binary=True,
        )
        answer = self._service.infer(request, "inside")
        response = answer if isinstance(answer, InferResponse) else await answer
        return response.as_dict()

    def check_health(self) -> None:
        """Raise if Ray should replace this replica."""
        if not self._service.ready():
            raise UnavailableError("ray", "replica must have a model that is ready")

    async def close(self) -> None:
        """Finish what is in flight within the configured grace."""
        self._service.drain()
        await asyncio.to_thread(self._repository.close, self._config.grace_s)
        self._app.close()


def deployment(config: ServerConfig, **options: Any) -> Any:  # Ray has no types
    """A deployment of replicas of ``config``; ``bind()`` makes an application of it.

    Args:
        config: As for a server. Models must be where every node finds them.
        options: Options of ``ray.serve.deployment``, such as ``num_replicas`` or
            ``autoscaling_config``. ``max_ongoing_requests`` is as many as the queue
            takes, unless it is given, so that requests share batches.
    """
    from ray import serve

    # Ray subclasses what it deploys, and pickles it by reference to this module.
    class ProaServing(Replica):
        def __init__(self) -> None:
            super().__init__(config)

        async def __del__(self) -> None:
            await self.close()

    options.setdefault("max_ongoing_requests", config.limits.queue)
    options.setdefault("graceful_shutdown_timeout_s", config.grace_s)
    options.setdefault("name", "proa-serving")
    return serve.deployment(**options)(ProaServing)
