"""Arguments of functions of sequences: LoDTensors, or Variables of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError
from proa.nn.sequences import RowSequences, as_lod_tensor, of_lod_tensor
from proa.static.state import create_parameter, parameter_of
from proa.static.variable import Variable
from proa.tensor.lod import LoDTensor

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike


def _of_variable(x: Variable) -> RowSequences | None:
    return x.program.sequences.get(x._handle[1])


def has_sequences(x: Tensor) -> bool:
    """Whether its rows make sequences."""
    if isinstance(x, Variable):
        return _of_variable(x) is not None
    return isinstance(x, LoDTensor) and bool(x._lengths)


def sequences_of(where: str, x: Any) -> RowSequences:
    """The sequences that its rows make.

    Raises:
        InvalidArgumentError: If they make none.
    """
    if not isinstance(x, Variable):
        return of_lod_tensor(where, x)
    found = _of_variable(x)
    if found is None:
        raise InvalidArgumentError(
            f"[{where}] input must be data with lod_level, or computed of such row by "
            f"row, got {x.name!r}"
        )
    return found


def with_sequences(rows: Tensor, sequences: RowSequences) -> Tensor:
    """Rows that make these sequences."""
    if not isinstance(rows, Variable):
        return as_lod_tensor(rows, sequences)
    rows.program.sequences[rows._handle[1]] = sequences
    return rows


def rows_counted_by(lengths: Tensor) -> Tensor | None:
    """A Variable with as many rows as these lengths say, if they are the very lengths
    of its sequences.
    """
    if not isinstance(lengths, Variable):
        return None
    value = lengths._handle[1]
    if value.producer is not None and value.producer.op == "assign":
        value = value.producer.inputs[0]  # as `sequence_pad` gives them
    for own in lengths.program.sequences.values():
        if own.lengths._handle[1] is value:
            return own.rows
    return None


def sequence_parameter(
    layer: str,
    shape: list[int],
    dtype: Any,
    attr: ParamAttrLike | None,
    is_bias: bool = False,
) -> Any:
    """A parameter of a function of sequences; of the program that is built, if any."""
    if static_builder() is None:
        return create_parameter(shape, dtype, attr=attr, is_bias=is_bias)
    return parameter_of(layer, shape, dtype, attr, is_bias)
