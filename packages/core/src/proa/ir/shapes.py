"""Output dtypes and shapes of an op on values, by the rules that kernels use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.ir.attributes import row_of
from proa.ir.program import Value

Spec = tuple[str, tuple[int, ...]]


def infer(
    op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
) -> list[Spec]:
    """(dtype, shape) of each output; -1 where a dimension is unknown."""
    from proa import _core

    row = row_of(op)
    rule = _core.infer_extension if row.kind == "extension" else _core.infer
    missing = [None] * (len(row.arrays) - len(inputs))
    given = [None if v is None else (v.shape, v.dtype) for v in (*inputs, *missing)]
    try:
        outputs = rule(op, given, dict(attrs))
    except ValueError as error:
        arrays = ", ".join("None" if v is None else str(v) for v in inputs)
        cause = f": {error}" if row.kind == "extension" else ""
        raise InvalidArgumentError(
            f"[{op}] arrays and attributes must fit together, got ({arrays}) "
            f"with {dict(attrs)}{cause}"
        ) from error
    return [(dtype.name, tuple(shape)) for shape, dtype in outputs]
