"""Makes a request of what a user passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from proa_serving.protocol.messages import (
    InferRequest,
    Parameters,
    RequestedOutput,
    Tensor,
)


def make_request(
    model: str,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    outputs: Sequence[str] = (),
    version: str = "",
    id: str = "",
    parameters: Parameters | None = None,
    binary: bool = True,
) -> InferRequest:
    """A request for ``model`` whose datatypes are those of the arrays."""
    return InferRequest(
        model=model,
        version=version,
        id=id,
        inputs=[Tensor.of(name, value) for name, value in inputs.items()],
        outputs=[RequestedOutput(name) for name in outputs],
        parameters=parameters or {},
        binary_output=binary,
    )
