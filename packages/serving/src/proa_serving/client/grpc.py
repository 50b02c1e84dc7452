"""A client that speaks gRPC. Safe to share between threads."""

from __future__ import annotations

from typing import Any

import grpc

from proa_serving.client.base import Client
from proa_serving.protocol import rpc
from proa_serving.protocol.errors import NotFoundError, error_from_code
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import (
    IndexEntry,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
)


class GrpcClient(Client):
    """Sends requests to a server.

    Args:
        address: host:port, or unix:path.
        timeout: Seconds that any answer may take.
        credentials: Speak TLS, with what ``grpc.ssl_channel_credentials`` makes.
        api_key: The key that the server wants.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 60.0,
        credentials: grpc.ChannelCredentials | None = None,
        api_key: str | None = None,
    ) -> None:
        self._timeout = timeout
        self._metadata = (
            [] if api_key is None else [("authorization", f"Bearer {api_key}")]
        )
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options)
        self._calls = {
            name: self._channel.unary_unary(
                f"/{rpc.SERVICE}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for name, (request, response) in rpc.METHODS.items()
        }

    def close(self) -> None:
        self._channel.close()

    def _infer(self, request: InferRequest) -> InferResponse:
        message = rpc.encode_request(request, request.binary_output)
        return rpc.decode_response(self._round_trip("ModelInfer", message))

    def live(self) -> bool:
        return bool(self._round_trip("ServerLive", pb.ServerLiveRequest()).live)

    def ready(self) -> bool:
        return bool(self._round_trip("ServerReady", pb.ServerReadyRequest()).ready)

    def model_ready(self, model: str, version: str = "") -> bool:
        """Whether the model answers; False also if it is not known."""
        message = pb.ModelReadyRequest(name=model, version=version)
        try:
            return bool(self._round_trip("ModelReady", message).ready)
        except NotFoundError:
            return False

    def server_metadata(self) -> ServerMetadata:
        held = self._round_trip("ServerMetadata", pb.ServerMetadataRequest())
        return ServerMetadata(held.name, held.version, tuple(held.extensions))

    def model_metadata(self, model: str, version: str = "") -> ModelMetadata:
        message = pb.ModelMetadataRequest(name=model, version=version)
        return rpc.decode_model_metadata(self._round_trip("ModelMetadata", message))

    def repository_index(self, ready_only: bool = False) -> list[IndexEntry]:
        held = self._round_trip(
            "RepositoryIndex", pb.RepositoryIndexRequest(ready=ready_only)
        )
        return [
            IndexEntry(line.name, line.version, line.state, line.reason)
            for line in held.models
        ]

    def load_model(self, model: str) -> None:
        self._round_trip(
            "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name=model)
        )

    def unload_model(self, model: str) -> None:
        self._round_trip(
            "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name=model)
        )

    def _round_trip(self, name: str, message: Any) -> Any:
        try:
            return self._calls[name](
                message, timeout=self._timeout, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise error_from_code(error.code().name, error.details() or "") from error
