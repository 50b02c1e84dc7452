"""Attributes of Layers that follow the shapes of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import proa
from proa import nn

#: Own attributes of a Layer before they were changed.
Attributes = dict[str, Any]
#: New sizes by the old ones, of what a Layer's own code may have a number for.
Sizes = Mapping[int, Iterable[int]]


def _shape(layer: Any, name: str = "weight") -> list[int]:
    """The shape of a parameter; empty if the layer has none."""
    parameter = getattr(layer, name, None)
    return [] if parameter is None else [int(n) for n in parameter.shape]


def _convolution(layer: Any, groups: int | None) -> Attributes:
    shape = _shape(layer)
    count = groups or layer._groups
    if layer._transposed:
        sizes = shape[0], shape[1] * count
    else:
        sizes = shape[1] * count, shape[0]
    return {"_in_channels": sizes[0], "_out_channels": sizes[1], "_groups": count}


def _attention(layer: Any) -> Attributes:
    width = _shape(layer.q_proj)[1]
    return {"embed_dim": width, "num_heads": width // layer.head_dim}


def _recurrent_stack(layer: Any) -> Attributes:
    sizes = [_shape(layer, f"weight_{kind}_l0")[1] for kind in ("ih", "hh")]
    return {"input_size": sizes[0], "hidden_size": sizes[1]}


def _group_norm(layer: Any, groups: int | None) -> Attributes:
    changed: Attributes = {"_num_groups": groups or layer._num_groups}
    if shape := _shape(layer):
        changed["_num_channels"] = shape[0]
    return changed


def _features(layer: Any) -> Attributes:
    shape = _shape(layer, "_mean") or _shape(layer) or _shape(layer, "scale")
    return {"_num_features": shape[0]} if shape else {}


def _is_own(layer: nn.Layer) -> bool:
    """Whether the class is none of Proa's layers."""
    return not type(layer).__module__.startswith("proa.nn.")


def _attributes(layer: Any, groups: int | None, sizes: Sizes) -> Attributes:
    """What the attributes are to be, by the parameters that the layer now has."""
    if hasattr(layer, "_in_channels") and hasattr(layer, "_groups"):
        return _convolution(layer, groups)
    if isinstance(layer, nn.Linear):
        return dict(zip(("in_features", "out_features"), _shape(layer), strict=True))
    if hasattr(layer, "_num_features"):
        return _features(layer)
    if isinstance(layer, nn.LayerNorm):
        return {"_shape": _shape(layer) or layer._shape}
    if isinstance(layer, nn.GroupNorm):
        return _group_norm(layer, groups)
    if isinstance(layer, nn.Embedding):
        return {"_dim": _shape(layer)[1]}
    if isinstance(layer, nn.MultiHeadAttention):
        return _attention(layer)
    if isinstance(layer, (nn.LSTM, nn.GRU, nn.SimpleRNN)):
        return _recurrent_stack(layer)
    if isinstance(layer, (nn.LSTMCell, nn.GRUCell, nn.SimpleRNNCell)):
        sizes_of = [_shape(layer, f"weight_{kind}")[1] for kind in ("ih", "hh")]
        return {"input_size": sizes_of[0], "hidden_size": sizes_of[1]}
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
        weight = own._parameters.get("weight")
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
