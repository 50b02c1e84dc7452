"""Nested lists, tuples and dicts of tensors, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Leaf = Callable[[Any], bool]


def flatten(thing: Any, is_leaf: Leaf) -> tuple[list[Any], Any]:
    """The leaves in order, and the rest as a JSON-able plan for `unflatten`."""
    leaves: list[Any] = []

    def walk(part: Any) -> Any:
        if is_leaf(part):
            leaves.append(part)
            return {"leaf": len(leaves) - 1}
        if isinstance(part, (list, tuple)):
            kind = "list" if isinstance(part, list) else "tuple"
            return {kind: [walk(p) for p in part]}
        if isinstance(part, dict):
            return {"dict": [[key, walk(p)] for key, p in part.items()]}
        return {"value": part}

    plan = walk(thing)
    return leaves, plan


def unflatten(leaves: list[Any], plan: Any) -> Any:
    """What `flatten` took apart, with other leaves."""
    ((kind, content),) = plan.items()
    if kind == "leaf":
        return leaves[content]
    if kind == "list":
        return [unflatten(leaves, p) for p in content]
    if kind == "tuple":
        return tuple(unflatten(leaves, p) for p in content)
    if kind == "dict":
        return {key: unflatten(leaves, p) for key, p in content}
    return content
