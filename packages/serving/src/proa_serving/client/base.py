"""What clients of every protocol have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TypeVar

import numpy.typing as npt

from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    Parameters,
    RequestedOutput,
    Tensor,
)

Self = TypeVar("Self", bound="Client")
UNIX = "unix:"


def parse_address(address: str) -> tuple[str, int] | str:
    """Host and port of ``host:port``, or the path of ``unix:path``.

    Raises:
        InvalidRequestError: If it is neither.
    """
    if address.startswith(UNIX) and address != UNIX:
        return address[len(UNIX) :]
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 2**16
    if not (host and is_port) or "/" in host:
        raise InvalidRequestError(
            "client", f"address must be host:port or unix:path, got {address!r:.120}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def key_headers(api_key: str | None) -> dict[str, str]:
    """The headers that present a key."""
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


def new_request(
    model: str,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    outputs: Sequence[str],
    version: str,
    id: str,
    parameters: Parameters | None,
    binary: bool,
) -> InferRequest:
    """The request that the arguments of :meth:`Client.infer` are."""
    return InferRequest(
        model=model,
        version=version,
        id=id,
        inputs=[Tensor.of(name, value) for name, value in inputs.items()],
        outputs=[RequestedOutput(name) for name in outputs],
        parameters=parameters or {},
        binary_output=binary,
    )


class Client(ABC):
    """Sends requests to a server; a `with` statement closes its connection."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def infer(
        self,
        model: str,
        inputs: Mapping[str, npt.ArrayLike],
        *,
        outputs: Sequence[str] = (),
        version: str = "",
        id: str = "",
        parameters: Parameters | None = None,
        binary: bool = True,
    ) -> InferResponse:
        """Run ``model`` on ``inputs`` by name.

        Args:
            model: The model's name.
            inputs: Arrays by name, of the dtypes that the model takes.
            outputs: Which outputs to answer; all if empty.
            version: The model's version; the newest if empty.
            id: Comes back with the answer.
            parameters: Parameters of the protocol, such as ``timeout`` in microseconds.
            binary: Send and receive raw bytes; otherwise JSON over HTTP, and typed
                contents over gRPC.

        Raises:
            ServingError: What the server raised, of the same type.
        """
        return self._infer(
            new_request(
                model,
                inputs,
                outputs=outputs,
                version=version,
                id=id,
                parameters=parameters,
                binary=binary,
            )
        )

    @abstractmethod
    def _infer(self, request: InferRequest) -> InferResponse: ...
