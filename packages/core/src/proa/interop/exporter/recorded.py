"""The program that an exporter writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.interop.graph.layer import GraphLayer
from proa.ir.outputs import name_outputs
from proa.ir.passes import apply
from proa.ir.program import Program
from proa.ir.record import to_array
from proa.jit.input_spec import InputSpec, as_specs
from proa.jit.save_load import export as traced
from proa.jit.translated_layer import TranslatedLayer

_PASSES = (
    "remove_identities",
    "fold_constants",
    "eliminate_common_subexpressions",
    "remove_dead_code",
)


def simplify(program: Program) -> None:
    """Compute what follows from constants, and remove what nothing reads."""
    apply(program, _PASSES)


def recorded_program(
    where: str,
    layer: Any,
    input_spec: Sequence[Any] | None,
    output_names: Sequence[str] | None = None,
) -> Program:
    """A program to be changed: a Layer's or function's, or of what `jit.load` gave.

    Args:
        where: The caller, for errors.
        output_names: One for each output; by default what it has.

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known, or are others than
            those that the program was recorded with; if the names are not one for
            each output.
    """
    if isinstance(layer, Program):
        known = layer.copy()
    elif isinstance(layer, TranslatedLayer):
        known = _with_weights(layer)
    else:
        if input_spec is None and isinstance(layer, GraphLayer):
            input_spec = layer.input_spec
        return traced(layer, input_spec, output_names).program
    if output_names is not None:
        name_outputs(known, output_names)
    if input_spec is not None:
        _check_inputs(where, known, as_specs(list(input_spec)))
    return known


def _with_weights(layer: TranslatedLayer) -> Program:
    """The program of a loaded model with its weights as they are now."""
    program, weights = layer.program().copy(), layer.state_dict()
    for value in program.constants():
        if value.kind == "param":
            value.data = to_array(weights[value.name])
    return program


def _check_inputs(where: str, program: Program, specs: Sequence[InputSpec]) -> None:
    """Refuse other inputs than those that a program was recorded with."""
    have = [(v.shape, v.dtype) for v in program.main.inputs]
    given = [(s.shape, s.dtype) for s in specs]
    if have != given:
        raise InvalidArgumentError(
            f"[{where}] input_spec of a model that is recorded already must be as it "
            f"was, {have}, got {given}"
        )
