"""Arguments of functions of sequences: LoDTensors, or Variables of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError
from proa.nn.sequences import RowSequences, as_lod_tensor, of_lod_tensor
from proa.static.recorder import ProgramRecorder
from proa.static.state import create_parameter, parameter_of
from proa.tensor.lod import LoDTensor

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike
    from proa.static.program import Program


def _program_of(x: Tensor) -> Program | None:
    """The program that a symbol belongs to, a Variable or one in a body."""
    recorder = None if x._handle is None else x._handle[0]
    return recorder.owner if isinstance(recorder, ProgramRecorder) else None


def has_sequences(x: Tensor) -> bool:
    """Whether its rows make sequences."""
    program = _program_of(x)
    if program is not None:
        return x._handle[1] in program.sequences
    return isinstance(x, LoDTensor) and bool(x._lengths)


def sequences_of(where: str, x: Any) -> RowSequences:
    """The sequences that its rows make.

    Raises:
        InvalidArgumentError: If they make none.
    """
    program = _program_of(x) if isinstance(x, Tensor) else None
    if program is None:
        return of_lod_tensor(where, x)
    found = program.sequences.get(x._handle[1])
    if found is None:
        raise InvalidArgumentError(
            f"[{where}] input must be data with lod_level, or computed of such row by "
            "row, with lengths at the end of a loop's body or of both functions of a "
            f"branch that it comes from, got {x.name!r}"
        )
    return found


def with_sequences(rows: Tensor, sequences: RowSequences) -> Tensor:
    """Rows that make these sequences."""
    program = _program_of(rows)
    if program is None:
        return as_lod_tensor(rows, sequences)
    program.sequences[rows._handle[1]] = sequences
    return rows


def rows_counted_by(lengths: Tensor) -> Tensor | None:
    """A Variable with as many rows as these lengths say, if they are the very lengths
    of its sequences.
    """
    program = _program_of(lengths)
    if program is None:
        return None
    value = lengths._handle[1]
    if value.producer is not None and value.producer.op == "assign":
        value = value.producer.inputs[0]  # as `sequence_pad` gives them
    for own in program.sequences.values():
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
