"""The operands of functions of two arrays: Tensors, or one of them a Python number."""

from __future__ import annotations

from typing import Any, TypeAlias

from proa._core import Tensor, ops
from proa.array_api.arrays import require_tensor
from proa.array_api.data_types import result_type
from proa.base.dtype import dtype
from proa.errors import InvalidTypeError
from proa.tensor.creation import full

#: An operand of a function of two: at least one of them is a Tensor.
Operand: TypeAlias = Tensor | bool | int | float | complex


def both(where: str, x1: Operand, x2: Operand) -> tuple[Any, Any]:
    """Both, if one is a Tensor and the other too, or a Python number."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise InvalidTypeError(
            f"[{where}] expected a Tensor, got {type(x1).__name__} and "
            f"{type(x2).__name__}: use asarray"
        )
    operands: tuple[object, object] = (x1, x2)
    for x in operands:
        if not isinstance(x, (bool, int, float, complex)):
            require_tensor(where, x)
    return x1, x2


def _as_array(x: Any, kind: dtype) -> Tensor:
    return ops.cast(x, dtype=kind) if isinstance(x, Tensor) else full([], x, kind)


def promoted(where: str, x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """Both as Tensors of the promoted dtype."""
    kind = result_type(*both(where, x1, x2))
    return _as_array(x1, kind), _as_array(x2, kind)
