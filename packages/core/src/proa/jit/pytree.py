"""Pytrees: nested lists, tuples and dictionaries of tensors, flattened to their leaves
and a treedef, and unflattened again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from types import ModuleType
from typing import Any

from proa import _core
from proa.tensor.array import TensorArray

Leaf = Callable[[Any], bool]

#: How deep objects are searched for tensors, and how many items of each.
_MAX_DEPTH, _MAX_ITEMS = 4, 10_000


def is_tensor(thing: Any) -> bool:
    """Whether it is a tensor, concrete or symbolic."""
    return isinstance(thing, _core.Tensor)


class TaggedUnion:
    """A result of one of several kinds: a run computes the tag, the number of its kind.
    `options` has a value for each.

    A function that returns a tensor here and None there, as a tensor decides, is
    recorded with such a result; its callers get the option itself.
    """

    def __init__(self, tag: Any, options: Sequence[Any]) -> None:
        self.tag, self.options = tag, options


def flatten(thing: Any, is_leaf: Leaf) -> tuple[list[Any], Any]:
    """The leaves in order, and the rest as a JSON-able treedef for `unflatten`."""
    leaves: list[Any] = []
    return leaves, _treedef(thing, is_leaf, leaves)


def _treedef(part: Any, is_leaf: Leaf, leaves: list[Any]) -> Any:
    """The treedef of a part, whose leaves are added to the list.

    (No function within `flatten`: that would keep the leaves until cycles are sought.)
    """
    if is_leaf(part):
        leaves.append(part)
        return {"leaf": len(leaves) - 1}
    if isinstance(part, TensorArray):  # changes in place
        return {"value": part}
    if isinstance(part, (list, tuple)):
        parts = [_treedef(p, is_leaf, leaves) for p in part]
        if hasattr(part, "_fields"):
            return {"namedtuple": [type(part), *parts]}
        return {"list" if isinstance(part, list) else "tuple": parts}
    if isinstance(part, dict):
        pairs = [[key, _treedef(p, is_leaf, leaves)] for key, p in part.items()]
        return {"dict": pairs}
    if isinstance(part, TaggedUnion):
        options = [part.tag, *part.options]
        return {"union": [_treedef(p, is_leaf, leaves) for p in options]}
    return {"value": part}


def leaves_of(tree: Any, treedef: Any) -> dict[int, Any]:
    """What ``tree`` has where the treedef has its leaves, by their numbers.

    Dictionaries are matched by key: ``tree`` may have their items in another order.

    Raises:
        LookupError: If the tree is built otherwise; names what it lacks.
    """
    found: dict[int, Any] = {}

    def walk(part: Any, treedef: Any) -> None:
        ((kind, content),) = treedef.items()
        if kind == "leaf":
            found[content] = part
        elif kind == "dict":
            for key, inner in content:
                if not isinstance(part, dict) or key not in part:
                    raise LookupError(key)
                walk(part[key], inner)
        elif kind in ("list", "tuple", "namedtuple"):
            content = content[1:] if kind == "namedtuple" else content
            if not isinstance(part, (list, tuple)) or len(part) != len(content):
                raise LookupError(f"a {kind} of {len(content)}")
            for item, inner in zip(part, content, strict=True):
                walk(item, inner)

    walk(tree, treedef)
    return found


def unflatten(leaves: list[Any], treedef: Any) -> Any:
    """The inverse of `flatten`, with other leaves."""
    if "leaf" in treedef:
        return leaves[treedef["leaf"]]
    ((kind, content),) = treedef.items()
    if kind == "list":
        return [unflatten(leaves, p) for p in content]
    if kind == "tuple":
        return tuple(unflatten(leaves, p) for p in content)
    if kind == "namedtuple":
        return content[0](*[unflatten(leaves, p) for p in content[1:]])
    if kind == "dict":
        return {key: unflatten(leaves, p) for key, p in content}
    if kind in ("union", "varied"):  # the latter in files of early versions
        tag, *options = [unflatten(leaves, p) for p in content]
        if getattr(tag, "_is_symbolic", False):
            return TaggedUnion(tag, options)
        return options[int(tag)]
    return content


def as_tuples(treedef: Any) -> Any:
    """The treedef with plain tuples for named ones, whose types only Python knows."""
    ((kind, content),) = treedef.items()
    if kind == "namedtuple":
        return {"tuple": [as_tuples(p) for p in content[1:]]}
    if kind in ("list", "tuple", "union"):
        return {kind: [as_tuples(p) for p in content]}
    if kind == "dict":
        return {kind: [[key, as_tuples(p)] for key, p in content]}
    return treedef


def leaf_paths(treedef: Any, path: tuple[Any, ...] = ()) -> dict[int, tuple[Any, ...]]:
    """The keys, field names and indices that lead to each leaf, by its number."""
    ((kind, content),) = treedef.items()
    if kind == "leaf":
        return {content: path}
    parts: list[tuple[Any, Any]] = []
    if kind == "dict":
        parts = [(str(key), inner) for key, inner in content]
    elif kind == "namedtuple":
        parts = list(zip(content[0]._fields, content[1:], strict=True))
    elif kind in ("list", "tuple", "union"):
        parts = list(enumerate(content))
    return {k: v for key, p in parts for k, v in leaf_paths(p, (*path, key)).items()}


def hidden_tensor(treedef: Any) -> bool:
    """Whether a value of the treedef, which is no leaf, is an object with a symbolic
    tensor in it: that would be no tensor of any run.
    """
    ((kind, content),) = treedef.items()
    if kind == "leaf":
        return False
    if kind == "value":
        return _has_symbol(content, _MAX_DEPTH)
    if kind == "namedtuple":
        content = content[1:]
    return any(hidden_tensor(p[1] if kind == "dict" else p) for p in content)


def _has_symbol(thing: Any, depth: int) -> bool:
    if is_tensor(thing):
        return bool(thing._is_symbolic)
    if depth == 0 or isinstance(thing, (str, bytes, type, ModuleType)):
        return False
    parts: list[Any] = list(getattr(thing, "__dict__", {}).values())
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else slots
        parts += [getattr(thing, name, None) for name in slots]
    if isinstance(thing, dict):
        parts += islice(thing.values(), _MAX_ITEMS)
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        parts += islice(thing, _MAX_ITEMS)
    return any(_has_symbol(part, depth - 1) for part in parts)
