"""Map a function over the leaves of nested lists and tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from proa._core import Tensor

#: A tensor, or a nest of lists and tuples of them.
Nest: TypeAlias = Tensor | Sequence["Nest"]


def tree_map(fn: Callable[..., Any], *nests: Any) -> Any:
    """fn over what is at the same places of nests of one structure, which is kept."""
    first = nests[0]
    if isinstance(first, (list, tuple)):
        parts = [tree_map(fn, *p) for p in zip(*nests, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return parts if isinstance(first, list) else tuple(parts)
    return fn(*nests)
