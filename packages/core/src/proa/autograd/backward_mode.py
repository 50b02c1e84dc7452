"""Asking for gradients: into the leaves' `grad`, or returned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proa import _core
from proa._core import Tensor
from proa.errors import InvalidTypeError

Tensors = Tensor | Sequence[Tensor]


def _listed(where: str, value: Tensors | None) -> list[Tensor] | None:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, Iterable):
        raise InvalidTypeError(
            f"[{where}] a Tensor or a list of Tensors must be given, "
            f"got {type(value).__name__!r}"
        )
    return list(value)


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Add the gradients of the sum of `tensors` to the `grad` of the leaves.

    Args:
        tensors: Where to begin.
        grad_tensors: Their gradients; None means ones.
        retain_graph: Keep what is needed to go through the graph again.
    """
    seeds = [grad_tensors] if isinstance(grad_tensors, Tensor) else grad_tensors
    _core.backward(_listed("backward", tensors), seeds, retain_graph, False)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Tensors | None = None,
) -> list[Tensor | None]:
    """Gradients of the sum of `outputs` with respect to each of `inputs`.

    Args:
        outputs: What is differentiated.
        inputs: With respect to what.
        grad_outputs: Gradients of the outputs; None means ones.
        retain_graph: Keep the graph; None means as `create_graph`.
        create_graph: Record the computation of the gradients, to differentiate them
            again.
        only_inputs: False also adds to the `grad` of other leaves.
        allow_unused: Return None for an input that the outputs do not depend on.
        no_grad_vars: Tensors that count as constants.
    """
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    result: list[Tensor | None] = _core.grad(
        _listed("grad", outputs),
        _listed("grad", inputs),
        seeds,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        only_inputs,
        allow_unused,
        _listed("grad", no_grad_vars),
    )
    return result
