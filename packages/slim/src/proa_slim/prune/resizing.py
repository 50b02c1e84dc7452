"""Attributes of Layers that follow the shapes of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import proa
from proa import nn
from proa.nn.layer.sizes import size_attributes

#: Own attributes of a Layer before they were changed.
Attributes = dict[str, Any]
#: New sizes by the old ones, of what a Layer's own code may have a number for.
Sizes = Mapping[int, Iterable[int]]


def _is_own(layer: nn.Layer) -> bool:
    """Whether the class is none of Proa's layers."""
    return not type(layer).__module__.startswith("proa.nn.")


def _attributes(layer: Any, groups: int | None, sizes: Sizes) -> Attributes:
    """What the attributes are to be, by the parameters that the layer now has."""
    found = size_attributes(layer, groups)
    if found:
        return found
    return _own_attributes(layer, sizes) if _is_own(layer) else {}


def _own_attributes(layer: nn.Layer, sizes: Sizes) -> Attributes:
    """Whole numbers that equal one old size, which became one new size: most often the
    code of the layer uses them as that. Recording it again shows whether it does.
    """
    changed: Attributes = {}
    for name, value in vars(layer).items():
        if isinstance(value, int) and not isinstance(value, bool):
            new = set(sizes.get(value, ()))
            if len(new) == 1:
                changed[name] = new.pop()
    return changed


def resize(
    network: proa.nn.Layer,
    groups: Mapping[int, int],
    sizes: Mapping[int, Sizes],
) -> list[tuple[nn.Layer, Attributes]]:
    """Let every Layer's attributes follow its parameters; what they were before.

    Args:
        groups: New numbers of groups by the ids of weights.
        sizes: By the ids of Layers with code of their own, sizes that changed.
    """
    before: list[tuple[nn.Layer, Attributes]] = []
    for layer in [network, *network.sublayers()]:
        own: Any = layer
        weight = dict(layer.named_parameters("", False)).get("weight")
        count = groups.get(id(weight)) if weight is not None else None
        changed = _attributes(own, count, sizes.get(id(layer), {}))
        changed = {k: v for k, v in changed.items() if getattr(own, k) != v}
        if changed:
            before.append((layer, {name: getattr(own, name) for name in changed}))
            for name, value in changed.items():
                setattr(own, name, value)
    return before


def put_back(before: list[tuple[nn.Layer, Attributes]]) -> None:
    """Undo `resize`."""
    for layer, attributes in before:
        for name, value in attributes.items():
            setattr(layer, name, value)
