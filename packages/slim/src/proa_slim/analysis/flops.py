"""`flops` and `model_size`: multiply-adds of a network, by layer; its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import proa
from proa.errors import InvalidTypeError
from proa.ir.program import Program, Value
from proa.static import Program as StaticProgram
from proa_slim.analysis.operations import multiply_adds
from proa_slim.analysis.recorded import RecordedNetwork, specs_of


@dataclass(frozen=True)
class LayerCost:
    """One product of a network.

    Attributes:
        name: Name of its weight; of the result where it has none.
        op: The operator.
        shape: Shape of the result.
        multiply_adds: Multiply-adds of one sample where sizes are symbolic.
        parameters: Elements of the weight; 0 where another product has it too.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    multiply_adds: int
    parameters: int


def cost_table(
    model: proa.nn.Layer | StaticProgram | Program,
    inputs: Sequence[Any] | None = None,
    dtypes: str | Sequence[str] = "float32",
) -> list[LayerCost]:
    """Multiply-adds of each product with weights, and of attention, in order.

    Args:
        model: A Layer, which is recorded in evaluation mode, or a program.
        inputs: For a Layer: a shape, or a shape or `InputSpec` for each input.
        dtypes: Dtypes of inputs that are given as shapes.

    Raises:
        InvalidTypeError: If `model` is none of these.
        InvalidArgumentError: If a Layer comes without inputs.
    """
    graph = _graph(model, inputs, dtypes)
    names: dict[Value, Value] = {}  # a transposed weight is the weight
    seen: set[Value] = set()
    table = []
    for node in graph.main.nodes:
        first = node.inputs[0] if node.inputs else None
        moves = node.op in ("transpose", "swap_last", "reshape", "unsqueeze")
        if moves and first is not None and first.kind != "node":
            names[node.outputs[0]] = first
        shapes = [None if v is None else v.shape for v in node.inputs]
        count = multiply_adds(node.op, shapes, [v.shape for v in node.outputs])
        if not count:
            continue
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        weight = names.get(weight, weight) if weight is not None else None
        result = node.outputs[0]
        if weight is None or weight.kind == "node":
            table.append(LayerCost(result.name, node.op, result.shape, count, 0))
            continue
        elements = 0 if weight in seen else _elements(weight)
        seen.add(weight)
        table.append(LayerCost(weight.name, node.op, result.shape, count, elements))
    return table


def _elements(value: Value) -> int:
    count = 1
    for size in value.shape:
        count *= size
    return count


def _graph(
    model: object, inputs: Sequence[Any] | None, dtypes: str | Sequence[str]
) -> Program:
    if isinstance(model, proa.nn.Layer):
        return RecordedNetwork(model, specs_of(inputs or [], dtypes)).program
    if isinstance(model, StaticProgram):
        return model.graph
    if isinstance(model, Program):
        return model
    raise InvalidTypeError(
        f"[flops] expected a Layer or a program, got {type(model).__name__}"
    )


@overload
def flops(
    model: proa.nn.Layer | StaticProgram | Program,
    inputs: Sequence[Any] | None = ...,
    dtypes: str | Sequence[str] | None = ...,
    only_conv: bool = ...,
    detail: Literal[False] = ...,
) -> int: ...
@overload
def flops(
    model: proa.nn.Layer | StaticProgram | Program,
    inputs: Sequence[Any] | None,
    dtypes: str | Sequence[str] | None,
    only_conv: bool,
    detail: Literal[True],
) -> tuple[int, dict[str, int]]: ...
@overload
def flops(
    model: proa.nn.Layer | StaticProgram | Program,
    inputs: Sequence[Any] | None = ...,
    dtypes: str | Sequence[str] | None = ...,
    only_conv: bool = ...,
    *,
    detail: Literal[True],
) -> tuple[int, dict[str, int]]: ...
def flops(
    model: proa.nn.Layer | StaticProgram | Program,
    inputs: Sequence[Any] | None = None,
    dtypes: str | Sequence[str] | None = None,
    only_conv: bool = False,
    detail: bool = False,
) -> int | tuple[int, dict[str, int]]:
    """Multiply-adds of one evaluation.

    Counted are convolutions, linear layers, matrix products, attention and recurrent
    cells; not what is elementwise. A multiplication with its addition is one.

    Args:
        model, inputs: As for `cost_table`.
        dtypes: Dtypes of inputs that are given as shapes; float32 if not given.
        only_conv: Count convolutions alone.
        detail: Also return the count for each weight, or result where there is none.

    Raises:
        InvalidTypeError, InvalidArgumentError: As `cost_table`.
    """
    found: dict[str, int] = {}
    for row in cost_table(model, inputs, dtypes or "float32"):
        if not only_conv or row.op.startswith("conv"):
            found[row.name] = found.get(row.name, 0) + row.multiply_adds
    total = sum(found.values())
    return (total, found) if detail else total


def model_size(model: proa.nn.Layer | StaticProgram | Program) -> int:
    """Elements of the parameters of a Layer or a program, each counted once.

    Raises:
        InvalidTypeError: If `model` is neither.
    """
    if isinstance(model, proa.nn.Layer):
        return sum(int(parameter.size) for parameter in model.parameters())
    if isinstance(model, StaticProgram):
        return sum(_elements(v) for v in model.states.values() if v.kind == "param")
    if isinstance(model, Program):
        return sum(_elements(v) for v in model.constants() if v.dtype != "int64")
    raise InvalidTypeError(
        f"[model_size] expected a Layer or a program, got {type(model).__name__}"
    )
