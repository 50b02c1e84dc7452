"""Listens for gRPC by grpcio's server, on the event loop that serves HTTP too."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc

from proa_serving.config import ServerConfig
from proa_serving.grpc.methods import GrpcMethods
from proa_serving.grpc.service import GrpcService
from proa_serving.http2.connection import ALPN
from proa_serving.models.service import InferenceService
from proa_serving.protocol.errors import AddressInUseError
from proa_serving.security.guard import Guard
from proa_serving.security.tls import Tls, TlsFiles
from proa_serving.security.watched import WatchedFiles
from proa_serving.transport.listener import bind_unix

_MESSAGE_OVERHEAD = 4096  # A body at the limit, and the fields around it.
# Seconds in which calls that are on their way still reach the service, which answers
# UNAVAILABLE: gRPC itself answers CANCELLED, and clients do not retry that.
_LINGER = 0.1


class GrpcioServer:
    """Listens where ``config`` says until it is stopped.

    Args:
        config: Port, socket and limits.
        service: What does the work.
        guard: Lets calls in.
    """

    def __init__(
        self, config: ServerConfig, service: InferenceService, guard: Guard
    ) -> None:
        limit = config.max_request_bytes + _MESSAGE_OVERHEAD
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", min(limit, 2**31 - 1)),
                ("grpc.max_send_message_length", -1),
                # Clients open a new one for their next call by themselves.
                ("grpc.max_connection_idle_ms", int(config.idle_timeout_s * 1000)),
                ("grpc.server_handshake_timeout_ms", int(config.head_timeout_s * 1000)),
                # Two servers would otherwise share the connections of one port.
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=config.max_connections,
        )
        self._service = GrpcService(service, GrpcMethods(service, guard))
        self._server.add_generic_rpc_handlers(self._service.handlers())
        self.addresses: list[str] = []
        if config.grpc_port is not None:
            host = f"[{config.host}]" if ":" in config.host else config.host
            port = self._listen(f"{host}:{config.grpc_port}", config.tls)
            self.addresses.append(f"{host}:{port}")
        if config.grpc_socket is not None:
            # Replaces a socket that nobody serves; grpcio binds it itself.
            bind_unix(config.grpc_socket, "grpc").close()
            config.grpc_socket.unlink()
            self._listen(f"unix:{config.grpc_socket}", None)
            self.addresses.append(f"unix:{config.grpc_socket}")

    def _listen(self, address: str, tls: TlsFiles | None) -> int:
        try:
            if tls is None:
                port: int = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError as error:
            raise AddressInUseError(
                "grpc",
                f"cannot listen on {address}: port in use, or {error}",
            ) from error
        if not port:
            raise AddressInUseError("grpc", f"cannot listen on {address}")
        return port

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


def _credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """The certificate for grpcio, which reads it again for new connections."""
    Tls(files, ALPN)  # Says what is wrong with the files, which grpcio does not.
    watched = WatchedFiles(files.certificate, files.key)

    def load() -> Any:
        if not watched.changed():
            return None  # as it was
        key, chain = files.key.read_bytes(), files.certificate.read_bytes()
        ca = files.client_ca.read_bytes() if files.client_ca is not None else None
        return grpc.ssl_server_certificate_configuration([(key, chain)], ca)

    first = load()
    return grpc.dynamic_ssl_server_credentials(
        first, load, require_client_authentication=files.client_ca is not None
    )
