"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, ShapeError

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(
    parameters: Iterable[Tensor], name: str | None = None
) -> Tensor:
    """The elements of all parameters in one line."""
    lines = [ops.reshape(p, shape=[-1]) for p in parameters]
    if not lines:
        raise InvalidArgumentError(
            "[parameters_to_vector] expected at least one parameter, got none"
        )
    return ops.concat(*lines, axis=0)


def vector_to_parameters(
    vec: Tensor, parameters: Iterable[Tensor], name: str | None = None
) -> None:
    """Fill the parameters, in order, with the elements of a line."""
    targets = list(parameters)
    total = sum(p.size for p in targets)
    if vec.ndim != 1 or vec.size != total:
        raise ShapeError("vector_to_parameters", f"vec must be [{total}]", vec.shape)
    start = 0
    with NoTape():
        for p in targets:
            values = ops.slice(
                vec, axes=[0], starts=[start], ends=[start + p.size], steps=[1]
            )
            p.set_value(ops.reshape(values, shape=p.shape))
            start += p.size
