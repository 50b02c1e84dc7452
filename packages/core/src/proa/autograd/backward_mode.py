"""Computing gradients: into the leaves' `grad`, or returned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proa import _core
from proa._core import Tensor
from proa.errors import InvalidArgumentError, InvalidTypeError

Tensors = Tensor | Sequence[Tensor]
OptionalTensors = Tensor | Sequence[Tensor | None]


def _listed(where: str, value: OptionalTensors | None) -> list[Tensor | None] | None:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, Iterable):
        raise InvalidTypeError(
            f"[{where}] expected a Tensor or a list of Tensors, got "
            f"{type(value).__name__!r}"
        )
    return list(value)


def _present(inputs: Sequence[Tensor | None], allow_unused: bool) -> list[Tensor]:
    """The inputs that are tensors; others may be None if they may also be unused."""
    if not allow_unused and any(x is None for x in inputs):
        place = next(i for i, x in enumerate(inputs) if x is None)
        raise InvalidTypeError(
            "[grad] expected inputs to be Tensors (None needs allow_unused=True), got "
            f"None as input {place}"
        )
    return [x for x in inputs if x is not None]


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Add the gradients of the sum of `tensors` to the `grad` of the leaves.

    Args:
        tensors: Where to begin. One that takes no gradient is passed over with a
            warning.
        grad_tensors: Their gradients; None means ones.
        retain_graph: Keep what is needed to go through the graph again.
    """
    seeds = [grad_tensors] if isinstance(grad_tensors, Tensor) else grad_tensors
    _core.backward(_listed("backward", tensors), seeds, retain_graph, False)


def grad(
    outputs: Tensors,
    inputs: OptionalTensors,
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
        inputs: With respect to what. None among them, which `allow_unused` admits, has
            the gradient None.
        grad_outputs: Gradients of the outputs; None means ones.
        retain_graph: Keep the graph; None means as `create_graph`.
        create_graph: Record the computation of the gradients, to differentiate them
            again.
        only_inputs: False also adds to the `grad` of other leaves.
        allow_unused: Return None for an input that the outputs do not depend on.
        no_grad_vars: Tensors that count as constants.

    Raises:
        InvalidTypeError: If something other than a Tensor is among them.
        InvalidArgumentError: If an input is unused and must not be, or there are not as
            many `grad_outputs` as `outputs`.
    """
    roots = _listed("grad", outputs)
    seeds = _listed("grad", grad_outputs)
    if roots and seeds and len(seeds) != len(roots):
        raise InvalidArgumentError(
            f"[grad] expected one of grad_outputs for each of {len(roots)} outputs, "
            f"got {len(seeds)}"
        )
    wanted = _listed("grad", inputs)
    present = _present(wanted, allow_unused) if wanted is not None else None
    found: list[Tensor | None] = _core.grad(
        roots,
        present,
        seeds,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        only_inputs,
        allow_unused,
        _listed("grad", no_grad_vars),
    )
    if wanted is None or len(found) == len(wanted):
        return found
    gradients = iter(found)
    return [None if x is None else next(gradients) for x in wanted]
