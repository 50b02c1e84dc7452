"""Nested lists, tuples and dicts of tensors, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Leaf = Callable[[Any], bool]


class Varied:
    """A result that a run chooses: `options` holds one value for each kind it may have.

    A function that returns a tensor here and None there, as a tensor decides, is
    recorded with such a result; its callers get the option itself.
    """

    def __init__(self, chosen: Any, options: Sequence[Any]) -> None:
        self.chosen, self.options = chosen, options


def flatten(thing: Any, is_leaf: Leaf) -> tuple[list[Any], Any]:
    """The leaves in order, and the rest as a JSON-able plan for `unflatten`."""
    leaves: list[Any] = []
    return leaves, _taken_apart(thing, is_leaf, leaves)


def _taken_apart(part: Any, is_leaf: Leaf, leaves: list[Any]) -> Any:
    """The plan of a part, whose leaves are added to the list.

    (No function within `flatten`: that would keep the leaves until cycles are sought.)
    """
    if is_leaf(part):
        leaves.append(part)
        return {"leaf": len(leaves) - 1}
    if isinstance(part, (list, tuple)):
        kind = "list" if isinstance(part, list) else "tuple"
        return {kind: [_taken_apart(p, is_leaf, leaves) for p in part]}
    if isinstance(part, dict):
        pairs = [[key, _taken_apart(p, is_leaf, leaves)] for key, p in part.items()]
        return {"dict": pairs}
    if isinstance(part, Varied):
        options = [part.chosen, *part.options]
        return {"varied": [_taken_apart(p, is_leaf, leaves) for p in options]}
    return {"value": part}


def leaves_of(tree: Any, plan: Any) -> dict[int, Any]:
    """What stands in ``tree`` where the plan has its leaves, by their numbers.

    Dictionaries are matched by key: ``tree`` may have their items in another order.

    Raises:
        LookupError: If the tree is built otherwise; names what it lacks.
    """
    found: dict[int, Any] = {}

    def walk(part: Any, plan: Any) -> None:
        ((kind, content),) = plan.items()
        if kind == "leaf":
            found[content] = part
        elif kind == "dict":
            for key, inner in content:
                if not isinstance(part, dict) or key not in part:
                    raise LookupError(key)
                walk(part[key], inner)
        elif kind in ("list", "tuple"):
            if not isinstance(part, (list, tuple)) or len(part) != len(content):
                raise LookupError(f"a {kind} of {len(content)}")
            for item, inner in zip(part, content, strict=True):
                walk(item, inner)

    walk(tree, plan)
    return found


def unflatten(leaves: list[Any], plan: Any) -> Any:
    """What `flatten` took apart, with other leaves."""
    if "leaf" in plan:
        return leaves[plan["leaf"]]
    ((kind, content),) = plan.items()
    if kind == "list":
        return [unflatten(leaves, p) for p in content]
    if kind == "tuple":
        return tuple(unflatten(leaves, p) for p in content)
    if kind == "dict":
        return {key: unflatten(leaves, p) for key, p in content}
    if kind == "varied":
        chosen, *options = [unflatten(leaves, p) for p in content]
        if getattr(chosen, "_is_symbolic", False):
            return Varied(chosen, options)
        return options[int(chosen)]
    return content
