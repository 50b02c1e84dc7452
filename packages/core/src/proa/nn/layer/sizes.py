"""Attributes of layers that state the shapes of their parameters.

For packages that change the parameters of a layer in place, as pruning does.
"""

from __future__ import annotations

from typing import Any

from proa.nn.layer.attention import MultiHeadAttention
from proa.nn.layer.base import Layer
from proa.nn.layer.conv import (
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
)
from proa.nn.layer.embedding import Embedding
from proa.nn.layer.linear import Linear
from proa.nn.layer.norm import (
    BatchNorm,
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    GroupNorm,
    InstanceNorm1D,
    InstanceNorm2D,
    InstanceNorm3D,
    LayerNorm,
    SyncBatchNorm,
)
from proa.nn.layer.rnn import GRU, LSTM, SimpleRNN
from proa.nn.layer.rnn_cells import GRUCell, LSTMCell, SimpleRNNCell

__all__ = ["group_count", "is_channels_last", "size_attributes"]

_TRANSPOSED = (Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)
_CONVOLUTIONS = (Conv1D, Conv2D, Conv3D, *_TRANSPOSED)
_BATCH_NORMS = (BatchNorm, BatchNorm1D, BatchNorm2D, BatchNorm3D, SyncBatchNorm)
_CHANNEL_NORMS = (*_BATCH_NORMS, InstanceNorm1D, InstanceNorm2D, InstanceNorm3D)


def group_count(layer: Layer) -> int:
    """The number of groups of a convolution; 1 for another layer."""
    found: Any = layer
    return int(found._groups) if isinstance(layer, _CONVOLUTIONS) else 1


def is_channels_last(layer: Layer) -> bool:
    """Whether the last axis of a layer's input holds its channels or features.

    For convolutions, batch norms and linear layers; False for any other.
    """
    if isinstance(layer, (*_CONVOLUTIONS, *_BATCH_NORMS)):
        found: Any = layer
        return str(found._data_format).endswith("C")
    return isinstance(layer, Linear)


def size_attributes(layer: Layer, groups: int | None = None) -> dict[str, Any]:
    """Values of the attributes that state sizes, by the layer's current parameters.

    Args:
        layer: Its parameters may have changed since it was made.
        groups: The new number of groups of a convolution or group norm; None keeps it.

    Returns:
        Values by the names of attributes; empty for a layer that states no sizes.
    """
    found: Any = layer
    if isinstance(layer, _CONVOLUTIONS):
        return _convolution(found, groups)
    if isinstance(layer, Linear):
        return dict(zip(("in_features", "out_features"), _shape(found), strict=True))
    if isinstance(layer, _CHANNEL_NORMS):
        shape = _shape(found, "_mean") or _shape(found) or _shape(found, "scale")
        return {"_num_features": shape[0]} if shape else {}
    if isinstance(layer, LayerNorm):
        return {"_shape": _shape(found) or found._shape}
    if isinstance(layer, GroupNorm):
        return _group_norm(found, groups)
    if isinstance(layer, Embedding):
        return {"_dim": _shape(found)[1]}
    if isinstance(layer, MultiHeadAttention):
        width = _shape(found.q_proj)[1]
        return {"embed_dim": width, "num_heads": width // found.head_dim}
    if isinstance(layer, (LSTM, GRU, SimpleRNN)):
        return _recurrent(found, "_l0")
    if isinstance(layer, (LSTMCell, GRUCell, SimpleRNNCell)):
        return _recurrent(found, "")
    return {}


def _shape(layer: Any, name: str = "weight") -> list[int]:
    """The shape of a parameter; empty if the layer has none."""
    parameter = getattr(layer, name, None)
    return [] if parameter is None else [int(n) for n in parameter.shape]


def _convolution(layer: Any, groups: int | None) -> dict[str, Any]:
    shape = _shape(layer)
    count = groups or layer._groups
    sizes = shape[1] * count, shape[0]
    if isinstance(layer, _TRANSPOSED):
        sizes = shape[0], shape[1] * count
    return {"_in_channels": sizes[0], "_out_channels": sizes[1], "_groups": count}


def _group_norm(layer: Any, groups: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"_num_groups": groups or layer._num_groups}
    if shape := _shape(layer):
        found["_num_channels"] = shape[0]
    return found


def _recurrent(layer: Any, suffix: str) -> dict[str, Any]:
    sizes = [_shape(layer, f"weight_{kind}{suffix}")[1] for kind in ("ih", "hh")]
    return {"input_size": sizes[0], "hidden_size": sizes[1]}
