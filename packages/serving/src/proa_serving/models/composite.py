"""What answers requests by requests to other models of the server."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar

from proa_serving.models.fit import fit_inputs, fit_outputs, seconds_for
from proa_serving.models.served import Context
from proa_serving.models.settings import ModelSettings
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelFailedError,
    RequestTimeoutError,
    ServingError,
)
from proa_serving.protocol.messages import (
    InferRequest,
    InferResponse,
    Tensor,
    TensorSpec,
)
from proa_serving.schedule.merge import Arrays

_MAX_DEPTH = 8
_depth: ContextVar[int] = ContextVar("proa_serve_depth", default=0)


class Composite(ABC):
    """A model made of others; a subclass says how. It has no worker of its own.

    An output that it does not give, as a step was skipped, is left out of the answer;
    a request that names it fails.
    """

    platform = ""

    def __init__(
        self,
        name: str,
        version: str,
        settings: ModelSettings,
        context: Context,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.name, self.version, self.settings = name, version, settings
        self.inputs, self.outputs = inputs, outputs
        self._context = context
        self._metrics = context.metrics.of_model(name, version)

    @abstractmethod
    async def run(self, arrays: Arrays, request: InferRequest) -> dict[str, Tensor]:
        """The outputs, by name, that the inputs ``arrays`` give."""

    def close(self, grace: float) -> bool:
        """Nothing is held; requests in progress end by themselves."""
        return True

    async def infer(self, request: InferRequest, protocol: str) -> InferResponse:
        """Answer ``request``."""
        began = time.monotonic()
        self._metrics.began(protocol)
        token = _depth.set(_depth.get() + 1)
        try:
            if _depth.get() > _MAX_DEPTH:
                raise ModelFailedError(
                    f"model {self.name}",
                    f"calls between models may be nested {_MAX_DEPTH} deep at most",
                )
            inputs = fit_inputs(request, self.inputs)
            wanted = fit_outputs(request, self.outputs)
            seconds = seconds_for(request, self._context.config.timeout_s)
            request.expires = began + seconds
            found = await asyncio.wait_for(self.run(inputs, request), seconds)
            return self._response(request, wanted, found)
        except ServingError as error:
            self._metrics.failed(protocol, error.reason, began)
            raise
        except asyncio.TimeoutError as error:  # Python 3.10's own
            self._metrics.failed(protocol, RequestTimeoutError.reason, began)
            raise RequestTimeoutError(
                f"model {self.name}", f"must answer within {seconds:g} s"
            ) from error
        except asyncio.CancelledError:
            self._metrics.failed(protocol, "cancelled", began)
            raise
        finally:
            _depth.reset(token)
            self._metrics.ended(began)

    def _response(
        self,
        request: InferRequest,
        wanted: list[TensorSpec],
        found: Mapping[str, Tensor],
    ) -> InferResponse:
        outputs = []
        for spec in wanted:
            tensor = found.get(spec.name)
            if tensor is not None:
                outputs.append(Tensor(spec.name, tensor.datatype, tensor.array))
            elif request.outputs:
                raise InvalidRequestError(
                    f"model {self.name}",
                    f"output {spec.name!r:.80} is not given for these inputs",
                )
        return InferResponse(self.name, self.version, outputs, request.id)

    async def call(
        self,
        request: InferRequest,
        model: str,
        version: str,
        inputs: list[Tensor],
    ) -> InferResponse:
        """The answer of another model, within what is left of the request's time."""
        inner = InferRequest(
            model=model,
            inputs=inputs,
            version=version,
            parameters={
                key: value
                for key, value in request.parameters.items()
                if key in _FORWARDED
            },
            binary_output=True,
            expires=request.expires,
            headers=request.headers,
            watch=request.watch,
        )
        answer = self._context.successor(inner).infer(inner, "inside")
        return answer if isinstance(answer, InferResponse) else await answer


# The parameters of a request that the models it runs get too.
_FORWARDED = frozenset({"priority", "sequence_id", "sequence_start", "sequence_end"})
