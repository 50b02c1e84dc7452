"""Clients of the Open Inference Protocol, for this server or any other.

>>> from proa_serving.client import HttpClient  # doctest: +SKIP
>>> with HttpClient("127.0.0.1:8000") as client:  # doctest: +SKIP
...     result = client.infer("lenet", {"x": images})
...     logits = result["logits"]

Errors are those of ``proa_serving.protocol.errors``, as the server raised them.
``GrpcClient`` imports grpc only when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa_serving.client.http import HttpClient

if TYPE_CHECKING:
    from proa_serving.client.grpc import GrpcClient

__all__ = ["GrpcClient", "HttpClient"]


def __getattr__(name: str) -> Any:
    if name == "GrpcClient":
        from proa_serving.client.grpc import GrpcClient

        return GrpcClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
