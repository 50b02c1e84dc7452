"""Runs a pipeline that is an asynchronous function in Python."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from proa_serving.backends.python import PythonModel
from proa_serving.models.composite import Composite
from proa_serving.models.served import Context
from proa_serving.models.settings import ModelSettings
from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import ModelFailedError, ServingError
from proa_serving.protocol.messages import Array, InferRequest, Tensor
from proa_serving.schedule.merge import Arrays

log = logging.getLogger("proa_serving.models")


class Pipeline(Composite):
    """Awaits ``run(inputs, infer)`` of a Python file for each request.

    ``infer(model, inputs, outputs=(), version="")`` gives the outputs of another model
    of the server, through its queue, batches and limits. It is awaited on the event
    loop: what computes for long belongs in a model of its own.
    """

    platform = "python_pipeline"

    def __init__(
        self,
        name: str,
        version: str,
        model: PythonModel,
        settings: ModelSettings,
        context: Context,
    ) -> None:
        super().__init__(name, version, settings, context, model.inputs, model.outputs)
        self._run = model.run

    async def run(self, arrays: Arrays, request: InferRequest) -> dict[str, Tensor]:
        async def infer(
            model: str,
            inputs: Mapping[str, npt.ArrayLike],
            outputs: Sequence[str] = (),
            version: str = "",
        ) -> dict[str, Array]:
            tensors = [Tensor.of(name, value) for name, value in inputs.items()]
            answer = await self.call(request, model, version, tensors)
            found = answer.as_dict()
            return {name: found[name] for name in outputs} if outputs else found

        try:
            results = await self._run(dict(arrays), infer)
            return self._tensors(results)
        except ServingError:
            raise
        except Exception as error:
            log.warning("model %s failed: %s", self.name, error)
            raise ModelFailedError(
                f"model {self.name}", f"failed: {error!s:.500}"
            ) from error

    def _tensors(self, results: Mapping[str, npt.ArrayLike]) -> dict[str, Tensor]:
        unknown = results.keys() - {spec.name for spec in self.outputs}
        if unknown:
            raise ValueError(f"outputs must be declared, got {sorted(unknown)}")
        found = {}
        for spec in self.outputs:
            if spec.name in results:
                dtype = datatype_of(spec.datatype, spec.name).dtype
                array = np.asarray(results[spec.name], dtype)
                found[spec.name] = Tensor(spec.name, spec.datatype, array)
        return found
