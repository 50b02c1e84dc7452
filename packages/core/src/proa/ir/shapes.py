"""Output dtypes and shapes of an op on values, by the rules that kernels use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.ir.attributes import pack
from proa.ir.program import Value
from proa.schema.dtypes import CODES

_NAMES = {code: name for name, code in CODES.items()}
Spec = tuple[str, tuple[int, ...]]


def infer(
    op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
) -> list[Spec]:
    """(dtype, shape) of each output; -1 where a dimension is unknown."""
    from proa import _core  # type: ignore[attr-defined,unused-ignore]  # built

    given = [None if v is None else (CODES[v.dtype], v.shape) for v in inputs]
    try:
        outputs = _core.infer_shapes(op, given, pack(op, attrs))
    except ValueError as error:
        arrays = ", ".join("None" if v is None else str(v) for v in inputs)
        raise InvalidArgumentError(
            f"[{op}] arrays and attributes must fit together, got ({arrays}) "
            f"with {dict(attrs)}"
        ) from error
    return [(_NAMES[dtype], tuple(shape)) for dtype, shape in outputs]
