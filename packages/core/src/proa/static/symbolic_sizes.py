"""Sizes that are unknown while a program is built, when shapes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proa.ir.program import Value
from proa.tensor.symbolic_dims import SymbolicDim

#: The shape that a value has now.
ShapeOf = Callable[[Value], tuple[int, ...]]


def size_of(size: Any, shape_of: ShapeOf) -> int:
    """A size, which is -1 if it is still unknown."""
    if not isinstance(size, SymbolicDim):
        return int(size)
    parts = [(size.of, size.axis, 1)]
    if size.plus is not None:
        parts.append(size.plus)
    known = [shape_of(tensor._handle[1])[axis] for tensor, axis, _ in parts]
    if any(n < 0 for n in known):
        return -1
    first, *others = known
    signs = [sign for _, _, sign in parts[1:]]
    total = first * size.factor // size.divisor + size.extra
    return total + sum(n * sign for n, sign in zip(others, signs, strict=True))
