"""Attention and the Transformer's encoder and decoder (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, TypeAlias, overload

from proa._core import Tensor, ops
from proa.base.annotations import shown
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.nn import functional as F
from proa.nn.attr import ParamAttr, ParamAttrLike, ParamAttrsLike
from proa.nn.layer.attention import MultiHeadAttention
from proa.nn.layer.base import Layer
from proa.nn.layer.container import LAYER_BYTES, LayerList
from proa.nn.layer.dropout import Dropout
from proa.nn.layer.linear import Linear
from proa.nn.layer.norm import LayerNorm
from proa.tensor.arguments import as_count

__all__ = [
    "MultiHeadAttention", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

#: What a decoder layer keeps: of its own attention, and of that to the encoder.
DecoderCache: TypeAlias = tuple[
    MultiHeadAttention.Cache, MultiHeadAttention.StaticCache
]
#: Those of several layers, the first kind of all and the second kind of all.
CachesByKind: TypeAlias = list[
    tuple[MultiHeadAttention.Cache | MultiHeadAttention.StaticCache, ...]
]


def _first(out: Any) -> Tensor:
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first


def _check_cache(layer: Layer, cache: Any, count: int) -> None:
    listed = isinstance(cache, (list, tuple)) and len(cache) >= count
    if cache is not None and not listed:
        raise InvalidTypeError(
            f"[{type(layer).__name__}] expected cache to be a list with an entry for "
            f"each of {count} layers, got {shown(cache)}"
        )


class _FeedForward(Layer):
    """What encoder and decoder layers share: settings and the two linear maps."""

    def __init__(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout: float,
        activation: str,
        act_dropout: float | None,
        normalize_before: bool,
        weight_attr: ParamAttrLike | None,
        bias_attr: ParamAttrLike | None,
    ) -> None:
        super().__init__()
        self.normalize_before = normalize_before
        if activation not in F.activation.ACTIVATIONS:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] expected activation to name a function of "
                f"proa.nn.functional, got {activation!r}"
            )
        self.activation = getattr(F, activation)
        inner = dropout if act_dropout is None else act_dropout
        self.linear1 = Linear(d_model, dim_feedforward, weight_attr, bias_attr)
        self.dropout = Dropout(inner)
        self.linear2 = Linear(dim_feedforward, d_model, weight_attr, bias_attr)

    def _block(self, x: Tensor, norm: Layer, dropout: Layer, part: Any) -> Tensor:
        """x plus part(x), normalised before the part or after the sum."""
        inner = part(norm(x) if self.normalize_before else x)
        out: Tensor = x + dropout(inner)
        return out if self.normalize_before else norm(out)

    def _feed(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return out


#: The arguments of encoder and decoder layers, by which copies are made.
_SETTINGS = frozenset({
    "d_model", "nhead", "dim_feedforward", "dropout", "activation", "attn_dropout",
    "act_dropout", "normalize_before", "weight_attr", "bias_attr",
})  # fmt: skip


def _last(attr: Any, index: int) -> Any:
    """One attribute for all parts, or a list of one for each."""
    if not isinstance(attr, (list, tuple)):
        return attr
    if index >= len(attr):
        raise InvalidArgumentError(
            f"[Transformer] expected {index + 1} attributes or more, got {len(attr)}"
        )
    return attr[index]


# Two functions of the module of this name that transformers written for Paddle import.


def _convert_param_attr_to_list(param_attr: Any, n: int) -> list[Any]:
    """An attribute for each of n parts: those of a list, or one of all."""
    if isinstance(param_attr, (list, tuple)) and len(param_attr) != n:
        raise InvalidArgumentError(
            f"[ParamAttr] a list must hold {n} attributes, got {len(param_attr)}"
        )
    attrs = [ParamAttr.of(_last(param_attr, i)) for i in range(n)]
    return [False if attr is None else attr for attr in attrs]


def _convert_attention_mask(attn_mask: Tensor | None, dtype: Any) -> Tensor | None:
    """A mask that is added: 0 where bools or ints say to keep, else -1e9."""
    if attn_mask is None or attn_mask.dtype.is_floating:
        return attn_mask if attn_mask is None else attn_mask.astype(dtype)
    hidden = ops.equal(
        attn_mask, ops.full_like(attn_mask, value=0, dtype=attn_mask.dtype)
    )
    return ops.scale(ops.cast(hidden, dtype=as_dtype(dtype)), scale=-1e9)


class TransformerEncoderLayer(_FeedForward):
    """Self-attention and a two-layer network, each with a residual and layer norm."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: ParamAttrsLike | None = None,
        bias_attr: ParamAttrsLike | None = None,
    ) -> None:
        config = {k: v for k, v in locals().items() if k in _SETTINGS}
        super().__init__(
            d_model, dim_feedforward, dropout, activation, act_dropout,
            normalize_before, _last(weight_attr, 1), _last(bias_attr, 1),
        )  # fmt: skip
        self._config = config
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout if attn_dropout is None else attn_dropout,
            weight_attr=_last(weight_attr, 0), bias_attr=_last(bias_attr, 0),
        )  # fmt: skip
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        cache: MultiHeadAttention.Cache | None = None,
    ) -> Tensor | tuple[Tensor, MultiHeadAttention.Cache]:
        step_caches: list[Any] = []

        def attend(x: Tensor) -> Tensor:
            out = self.self_attn(x, x, x, src_mask, cache)
            if cache is not None:
                step_caches.append(out[-1])
            return _first(out)

        x = self._block(src, self.norm1, self.dropout1, attend)
        x = self._block(x, self.norm2, self.dropout2, self._feed)
        return (x, step_caches[0]) if step_caches else x

    def gen_cache(self, src: Tensor) -> MultiHeadAttention.Cache:
        """A cache that begins empty."""
        return self.self_attn.gen_cache(src)


class TransformerEncoder(Layer):
    """Copies of an encoder layer one after another."""

    def __init__(
        self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        cache: Sequence[MultiHeadAttention.Cache] | None = None,
    ) -> Tensor | tuple[Tensor, list[MultiHeadAttention.Cache]]:
        x, step_caches = src, []
        _check_cache(self, cache, len(self.layers))
        for i, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, src_mask)
            else:
                x, own = layer(x, src_mask, cache[i])
                step_caches.append(own)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, step_caches)

    def gen_cache(self, src: Tensor) -> list[MultiHeadAttention.Cache]:
        """A cache for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


def _copies(layer: Layer, count: int) -> LayerList:
    """The layer and others made as it was, each with parameters of its own."""
    as_count(type(layer).__name__, "copies of the layer", count, LAYER_BYTES)
    config = getattr(layer, "_config", None)
    more: list[Layer] = [
        deepcopy(layer) if config is None else type(layer)(**config)
        for _ in range(count - 1)
    ]
    return LayerList([layer, *more])


class TransformerDecoderLayer(_FeedForward):
    """Self-attention, attention to the encoder's output, and a two-layer network."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: ParamAttrsLike | None = None,
        bias_attr: ParamAttrsLike | None = None,
    ) -> None:
        config = {k: v for k, v in locals().items() if k in _SETTINGS}
        super().__init__(
            d_model, dim_feedforward, dropout, activation, act_dropout,
            normalize_before, _last(weight_attr, 2), _last(bias_attr, 2),
        )  # fmt: skip
        self._config = config
        inner = dropout if attn_dropout is None else attn_dropout
        self.self_attn, self.cross_attn = (
            MultiHeadAttention(
                d_model, nhead, inner,
                weight_attr=_last(weight_attr, i), bias_attr=_last(bias_attr, i),
            )
            for i in range(2)
        )  # fmt: skip
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (
            Dropout(dropout) for _ in range(3)
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor | tuple[Tensor, DecoderCache]:
        caches: Any = (None, None) if cache is None else cache
        own, static = caches
        step_caches: list[Any] = []

        def attend(x: Tensor) -> Tensor:
            out = self.self_attn(x, x, x, tgt_mask, own)
            if own is not None:
                step_caches.append(out[-1])
            return _first(out)

        def cross(x: Tensor) -> Tensor:
            return _first(self.cross_attn(x, memory, memory, memory_mask, static))

        x = self._block(tgt, self.norm1, self.dropout1, attend)
        x = self._block(x, self.norm2, self.dropout2, cross)
        x = self._block(x, self.norm3, self.dropout3, self._feed)
        return (x, (step_caches[0], static)) if step_caches else x

    def gen_cache(self, memory: Tensor) -> DecoderCache:
        """An empty cache for self-attention and a static one of the memory."""
        static = self.cross_attn.gen_cache(
            memory, memory, MultiHeadAttention.StaticCache
        )
        return self.self_attn.gen_cache(memory), static


class TransformerDecoder(Layer):
    """Copies of a decoder layer one after another."""

    def __init__(
        self, decoder_layer: Layer, num_layers: int, norm: Layer | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Sequence[DecoderCache] | None = None,
    ) -> Tensor | tuple[Tensor, list[DecoderCache]]:
        x, step_caches = tgt, []
        _check_cache(self, cache, len(self.layers))
        for i, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, memory, tgt_mask, memory_mask)
            else:
                x, own = layer(x, memory, tgt_mask, memory_mask, cache[i])
                step_caches.append(own)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, step_caches)

    @overload
    def gen_cache(
        self, memory: Tensor, do_zip: Literal[False] = ...
    ) -> list[DecoderCache]: ...
    @overload
    def gen_cache(self, memory: Tensor, do_zip: bool) -> CachesByKind: ...
    def gen_cache(
        self, memory: Tensor, do_zip: bool = False
    ) -> list[DecoderCache] | CachesByKind:
        """A cache for each layer; zipped into one list for each kind if do_zip."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(Layer):
    """Encoder and decoder together."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: ParamAttrsLike | None = None,
        bias_attr: ParamAttrsLike | None = None,
        custom_encoder: Layer | None = None,
        custom_decoder: Layer | None = None,
    ) -> None:
        super().__init__()
        rest = (
            d_model, nhead, dim_feedforward, dropout, activation, attn_dropout,
            act_dropout, normalize_before, weight_attr, bias_attr,
        )  # fmt: skip

        def norm() -> Layer | None:
            return LayerNorm(d_model) if normalize_before else None

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*rest), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*rest), num_decoder_layers, norm()
        )
        self.d_model, self.nhead = d_model, nhead

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Any:
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Tensor:
        """A mask that hides later places: 0 on and below the diagonal, -inf above."""
        full = ops.full(
            shape=[length, length], value=float("-inf"), dtype=as_dtype("default")
        )
        return ops.triu(full, diagonal=1)
