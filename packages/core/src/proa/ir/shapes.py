"""Output dtypes and shapes of an op on values, by the rules that kernels use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proa.ir.attributes import row_of
from proa.ir.program import Value

Spec = tuple[str, tuple[int, ...]]


def infer(
    op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
) -> list[Spec]:
    """(dtype, shape) of each output; -1 where a dimension is unknown.

    Raises:
        Error: What the op itself raises for such arrays and attributes.
    """
    from proa import _core

    row = row_of(op)
    rule = _core.infer_extension if row.kind == "extension" else _core.infer
    given = [None if v is None else (v.shape, v.dtype) for v in inputs]
    given += [None] * (len(row.arrays) - len(inputs))
    outputs = rule(op, given, dict(attrs))
    return [(dtype.name, tuple(shape)) for shape, dtype in outputs]
