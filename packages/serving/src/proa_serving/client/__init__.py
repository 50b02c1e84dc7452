"""Clients of the Open Inference Protocol, for this server or any other.

>>> from proa_serving.client import HttpClient  # doctest: +SKIP
>>> with HttpClient("127.0.0.1:8000") as client:  # doctest: +SKIP
...     result = client.infer("lenet", {"x": images})
...     logits = result["logits"]

``errors`` has the types of errors, which are raised as the server raised them.
``GrpcClient`` imports grpc only when it is first used. ``ClientPool`` is for threads
and several servers, ``AsyncHttpClient`` for asyncio.
"""

import typing as _typing

from proa_serving.client.http import HttpClient
from proa_serving.client.pool import ClientPool
from proa_serving.client.retry import Retry
from proa_serving.protocol import errors

if _typing.TYPE_CHECKING:
    from proa_serving.client.aio import AsyncHttpClient
    from proa_serving.client.grpc import GrpcClient

__all__ = [
    "AsyncHttpClient",
    "ClientPool",
    "GrpcClient",
    "HttpClient",
    "Retry",
    "errors",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _typing.Any:
    if name == "GrpcClient":
        from proa_serving.client.grpc import GrpcClient

        return GrpcClient
    if name == "AsyncHttpClient":
        from proa_serving.client.aio import AsyncHttpClient

        return AsyncHttpClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
