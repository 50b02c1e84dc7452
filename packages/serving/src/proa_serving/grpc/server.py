"""Listens for gRPC by grpcio's server, on the event loop that serves HTTP too."""

from __future__ import annotations

import asyncio
import time

import grpc

from proa_serving.config import ServerConfig
from proa_serving.grpc.methods import GrpcMethods
from proa_serving.grpc.service import GrpcService
from proa_serving.models.service import InferenceService
from proa_serving.protocol.errors import AddressInUseError

_MESSAGE_OVERHEAD = 4096  # A body at the limit, and the fields around it.
# Seconds in which calls that are on their way still reach the service, which answers
# UNAVAILABLE: gRPC itself answers CANCELLED, and clients do not retry that.
_LINGER = 0.1


class GrpcioServer:
    """Listens on the port that ``config`` names until it is stopped."""

    def __init__(self, config: ServerConfig, service: InferenceService) -> None:
        assert config.grpc_port is not None
        limit = config.max_request_bytes + _MESSAGE_OVERHEAD
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", min(limit, 2**31 - 1)),
                ("grpc.max_send_message_length", -1),
                # Clients open a new one for their next call without being told.
                ("grpc.max_connection_idle_ms", int(config.idle_timeout_s * 1000)),
                ("grpc.server_handshake_timeout_ms", int(config.head_timeout_s * 1000)),
                # Two servers would otherwise share one port and take turns.
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=config.max_connections,
        )
        self._service = GrpcService(service, GrpcMethods(service))
        self._server.add_generic_rpc_handlers(self._service.handlers())
        host = f"[{config.host}]" if ":" in config.host else config.host
        address = f"{host}:{config.grpc_port}"
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise AddressInUseError(
                "grpc",
                f"cannot listen on {address}: port in use, or {error}",
            ) from error
        if not self.port:
            raise AddressInUseError("grpc", f"must be able to listen on {address}")

    def drain(self) -> None:
        """Nothing is to be done before :meth:`stop`."""

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Let what is in flight end within ``grace`` seconds, then close.

        The service refuses new calls while it drains, so they are left to it until
        the last call in flight is answered.
        """
        end = time.monotonic() + grace
        await self._service.drained(grace)
        async with self._service.last_refusals():
            await asyncio.sleep(min(_LINGER, max(0.0, end - time.monotonic())))
        await self._server.stop(max(0.0, end - time.monotonic()))
