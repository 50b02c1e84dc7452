"""What clients of every protocol have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TypeVar

import numpy.typing as npt

from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    Parameters,
    RequestedOutput,
    Tensor,
)

Self = TypeVar("Self", bound="Client")


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
