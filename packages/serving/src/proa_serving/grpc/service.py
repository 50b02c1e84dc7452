"""Answers the calls of the protocol's gRPC service."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from proa_serving.models.service import METADATA, InferenceService
from proa_serving.protocol import rpc
from proa_serving.protocol.errors import InvalidRequestError, ServingError
from proa_serving.protocol.generated import open_inference_pb2 as pb

log = logging.getLogger("proa_serving.grpc")
Handler = Callable[[Any, Any], Awaitable[Any]]


class GrpcService:
    """One method for each of the service's, named as it is."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """All methods, under the protocol's public name."""
        return grpc.method_handlers_generic_handler(
            rpc.SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    _guarded(getattr(self, name), request.FromString),
                    response_serializer=response.SerializeToString,
                )
                for name, (request, response) in rpc.METHODS.items()
            },
        )

    async def ServerLive(self, _: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, _: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._service.ready())

    async def ModelReady(
        self, request_message: pb.ModelReadyRequest
    ) -> pb.ModelReadyResponse:
        ready = self._service.model_ready(request_message.name, request_message.version)
        return pb.ModelReadyResponse(ready=ready)

    async def ServerMetadata(
        self, _: pb.ServerMetadataRequest
    ) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(
            name=METADATA.name, version=METADATA.version, extensions=METADATA.extensions
        )

    async def ModelMetadata(
        self, request_message: pb.ModelMetadataRequest
    ) -> pb.ModelMetadataResponse:
        return rpc.encode_model_metadata(
            self._service.model_metadata(request_message.name, request_message.version)
        )

    async def ModelInfer(
        self, request_message: pb.ModelInferRequest
    ) -> pb.ModelInferResponse:
        try:
            request = rpc.decode_request(request_message)
        except ServingError as error:
            self._service.metrics.refused("grpc", error.reason)
            raise
        return rpc.encode_response(await self._service.infer(request, "grpc"), request)

    async def RepositoryIndex(
        self, request_message: pb.RepositoryIndexRequest
    ) -> pb.RepositoryIndexResponse:
        message = pb.RepositoryIndexResponse()
        for line in await self._service.index(request_message.ready):
            message.models.add(
                name=line.name,
                version=line.version,
                state=line.state,
                reason=line.reason,
            )
        return message

    async def RepositoryModelLoad(
        self, request_message: pb.RepositoryModelLoadRequest
    ) -> pb.RepositoryModelLoadResponse:
        await self._service.load(request_message.model_name)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(
        self, request_message: pb.RepositoryModelUnloadRequest
    ) -> pb.RepositoryModelUnloadResponse:
        await self._service.unload(request_message.model_name)
        return pb.RepositoryModelUnloadResponse()


def _guarded(
    method: Callable[[Any], Awaitable[Any]], parse: Callable[[bytes], Any]
) -> Handler:
    """``method`` of what ``parse`` makes of the bytes, its errors answered in kind.

    Parsing is done here, for grpc would answer bytes that are no message with UNKNOWN.
    """

    async def call(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await method(_parsed(data, parse))
        except ServingError as error:
            code, text = grpc.StatusCode[error.grpc_code], str(error)
        except Exception:
            log.exception("a gRPC call failed inside the server")
            code, text = grpc.StatusCode.INTERNAL, "[server] failed; its log says more"
        return await context.abort(code, text)

    return call


def _parsed(data: bytes, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(data)
    except DecodeError as error:
        raise InvalidRequestError("grpc", f"must be a message: {error}") from error
